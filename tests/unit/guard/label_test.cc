#include "agent/guard/label.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "agent/guard/dir_mark.h"

namespace muster {
namespace {

Label Sample() {
  Label label;
  label.uuid = NewUuid();
  label.generation = 7;
  label.device_size = 960'197'124'096;
  label.created_micros = 1'700'000'000'000'000;
  label.created_by = "run 42 on host nas1";
  return label;
}

TEST_CASE("CRC-32C gives the check value of its definition") {
  const char text[] = "123456789";
  CHECK(Crc32c({reinterpret_cast<const uint8_t*>(text), 9}) == 0xE3069283u);
  CHECK(Crc32c({}) == 0);
}

TEST_CASE("a label comes back as it was written") {
  const Label label = Sample();
  const auto bytes = EncodeLabel(label);
  const auto back = DecodeLabel(bytes);
  REQUIRE(back.has_value());
  CHECK(back->uuid == label.uuid);
  CHECK(back->generation == 7);
  CHECK(back->device_size == 960'197'124'096);
  CHECK(back->created_micros == label.created_micros);
  CHECK(back->created_by == label.created_by);
}

TEST_CASE("a label with any single bit changed is none") {
  const auto bytes = EncodeLabel(Sample());
  for (size_t bit = 0; bit < kLabelBytes * 8; bit += bit < 1024 ? 1 : 37) {
    auto damaged = bytes;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    INFO("bit " << bit);
    REQUIRE_FALSE(DecodeLabel(damaged).has_value());
  }
}

TEST_CASE("zeros, a short buffer and bytes in the unused room are no label") {
  const std::array<uint8_t, kLabelBytes> zeros{};
  CHECK_FALSE(DecodeLabel(zeros).has_value());
  auto bytes = EncodeLabel(Sample());
  CHECK_FALSE(DecodeLabel(std::span(bytes).first(kLabelBytes - 1)).has_value());
  // Somebody else's bytes, with the CRC made right again.
  bytes[2000] = 1;
  const uint32_t crc = Crc32c(std::span(bytes).first(kLabelBytes - 4));
  for (int i = 0; i < 4; ++i) bytes[kLabelBytes - 4 + i] = static_cast<uint8_t>(crc >> (8 * i));
  CHECK_FALSE(DecodeLabel(bytes).has_value());
}

TEST_CASE("a long creator is cut, not refused") {
  Label label = Sample();
  label.created_by = std::string(1000, 'x');
  const auto back = DecodeLabel(EncodeLabel(label));
  REQUIRE(back.has_value());
  CHECK(back->created_by == std::string(255, 'x'));
}

TEST_CASE("UUIDs are random, of version 4, and parse only in their own form") {
  const auto uuid = NewUuid();
  CHECK(uuid != NewUuid());
  CHECK((uuid[6] >> 4) == 4);
  CHECK((uuid[8] >> 6) == 2);
  const std::string text = FormatUuid(uuid);
  CHECK(text.size() == 36);
  std::array<uint8_t, 16> back{};
  REQUIRE(ParseUuid(text, back));
  CHECK(back == uuid);
  for (const std::string& bad : {std::string(), text.substr(1), text + "0", std::string(36, 'g'), "-" + text}) {
    CHECK_FALSE(ParseUuid(bad, back));
  }
}

TEST_CASE("a directory mark comes back as it was written") {
  DirMark mark;
  mark.uuid = NewUuid();
  mark.generation = 3;
  mark.made_parent = true;
  mark.files = {{"data.0", false}, {"data.1", true}};
  const auto back = DecodeDirMark(EncodeDirMark(mark));
  REQUIRE(back.has_value());
  CHECK(back->uuid == mark.uuid);
  CHECK(back->generation == 3);
  CHECK(back->made_parent);
  CHECK(back->files == mark.files);
}

TEST_CASE("a directory mark that is cut, changed or names foreign paths is none") {
  DirMark mark;
  mark.uuid = NewUuid();
  mark.generation = 12;
  mark.files = {{"data", false}};
  const std::string text = EncodeDirMark(mark);
  for (size_t length = 0; length < text.size(); ++length) {
    REQUIRE_FALSE(DecodeDirMark(text.substr(0, length)).has_value());
  }
  CHECK_FALSE(DecodeDirMark(text + "\n").has_value());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    INFO("byte " << at);
    REQUIRE_FALSE(DecodeDirMark(changed).has_value());
  }
  // A mark whose CRC is right but which would make muster remove something elsewhere.
  for (const char* name : {"../etc", "a/b", ".muster", "", "..", "a b"}) {
    DirMark evil = mark;
    evil.files = {{name, false}};
    INFO(name);
    CHECK_FALSE(DecodeDirMark(EncodeDirMark(evil)).has_value());
  }
}

}  // namespace
}  // namespace muster
