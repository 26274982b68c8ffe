#include "controller/fleet/receipts.h"

#include <array>
#include <atomic>
#include <charconv>

namespace muster {
namespace {

std::array<std::atomic<uint32_t>, 65536>& Counts() {
  static auto* const counts = new std::array<std::atomic<uint32_t>, 65536>();  // gRPC's threads may outlive main
  return *counts;
}

}  // namespace

void NoteReceipt(std::string_view peer) {
  const size_t at = peer.rfind(':');
  if (at == std::string_view::npos) return;
  uint16_t port = 0;
  const char* const end = peer.data() + peer.size();
  const auto read = std::from_chars(peer.data() + at + 1, end, port);
  if (read.ec == std::errc() && read.ptr == end) ++Counts()[port];
}

uint32_t ReceiptsOf(uint16_t port) {
  return Counts()[port].load();
}

}  // namespace muster
