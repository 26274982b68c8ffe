#include "agent/guard/label.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>

namespace muster {
namespace {

constexpr std::string_view kMagic("MUSTER-LABEL\r\n\x1a\0", 16);
constexpr uint32_t kVersion = 1;
constexpr size_t kVersionAt = 16;
constexpr size_t kUuidAt = 24;
constexpr size_t kGenerationAt = 40;
constexpr size_t kSizeAt = 48;
constexpr size_t kCreatedAt = 56;
constexpr size_t kByLengthAt = 64;
constexpr size_t kByAt = 66;
constexpr size_t kByMax = 255;
constexpr size_t kCrcAt = kLabelBytes - 4;

template <typename T>
void Put(uint8_t* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
}

template <typename T>
T Take(const uint8_t* at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{at[i]} << (8 * i);
  return static_cast<T>(value);
}

std::array<uint32_t, 256> CrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    table[i] = c;
  }
  return table;
}

}  // namespace

uint32_t Crc32c(std::span<const uint8_t> bytes) {
  static const std::array<uint32_t, 256> table = CrcTable();
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::array<uint8_t, kLabelBytes> EncodeLabel(const Label& label) {
  std::array<uint8_t, kLabelBytes> out{};
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  Put<uint32_t>(&out[kVersionAt], kVersion);
  std::copy(label.uuid.begin(), label.uuid.end(), &out[kUuidAt]);
  Put<uint64_t>(&out[kGenerationAt], label.generation);
  Put<uint64_t>(&out[kSizeAt], label.device_size);
  Put<int64_t>(&out[kCreatedAt], label.created_micros);
  const size_t length = std::min(label.created_by.size(), kByMax);
  Put<uint16_t>(&out[kByLengthAt], static_cast<uint16_t>(length));
  std::memcpy(&out[kByAt], label.created_by.data(), length);
  Put<uint32_t>(&out[kCrcAt], Crc32c(std::span(out).first(kCrcAt)));
  return out;
}

std::optional<Label> DecodeLabel(std::span<const uint8_t> bytes) {
  if (bytes.size() < kLabelBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  if (Take<uint32_t>(&bytes[kVersionAt]) != kVersion) return std::nullopt;
  if (Take<uint32_t>(&bytes[kCrcAt]) != Crc32c(bytes.first(kCrcAt))) return std::nullopt;
  Label label;
  std::copy_n(&bytes[kUuidAt], label.uuid.size(), label.uuid.begin());
  label.generation = Take<uint64_t>(&bytes[kGenerationAt]);
  label.device_size = Take<uint64_t>(&bytes[kSizeAt]);
  label.created_micros = Take<int64_t>(&bytes[kCreatedAt]);
  const size_t length = Take<uint16_t>(&bytes[kByLengthAt]);
  if (length > kByMax) return std::nullopt;
  label.created_by.assign(reinterpret_cast<const char*>(&bytes[kByAt]), length);
  // Re-encoding must give the same bytes: unused room holds nothing that somebody else could have put there.
  const auto again = EncodeLabel(label);
  if (std::memcmp(again.data(), bytes.data(), kLabelBytes) != 0) return std::nullopt;
  return label;
}

std::array<uint8_t, 16> NewUuid() {
  std::array<uint8_t, 16> uuid{};
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    std::random_device device;
    for (auto& byte : uuid) byte = static_cast<uint8_t>(device());
  }
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0F) | 0x40);  // RFC 4122: version 4
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3F) | 0x80);  // RFC 4122: variant
  return uuid;
}

std::string FormatUuid(const std::array<uint8_t, 16>& uuid) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHex[uuid[i] >> 4];
    text += kHex[uuid[i] & 15];
  }
  return text;
}

bool ParseUuid(std::string_view text, std::array<uint8_t, 16>& uuid) {
  std::array<uint8_t, 16> bytes{};
  size_t digits = 0;
  for (char c : text) {
    if (c == '-') continue;
    int value = 0;
    if (c >= '0' && c <= '9') {
      value = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      value = c - 'a' + 10;
    } else {
      return false;
    }
    if (digits == 32) return false;
    bytes[digits / 2] = static_cast<uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 32 || FormatUuid(bytes) != text) return false;
  uuid = bytes;
  return true;
}

}  // namespace muster
