#include "controller/service/unread_guard.h"

#include <catch2/catch.hpp>

#include "controller/fleet/receipts.h"

namespace muster {
namespace {

constexpr uint64_t kMost = 17 << 20;

TEST_CASE("bytes without a whole message are counted a connection, and bounded") {
  UnreadBook book(kMost);
  CHECK(book.TooMuch({.port = 5, .received = 1000, .whole = 0}, 0) == 0);
  CHECK(book.TooMuch({.port = 5, .received = kMost, .whole = 0}, kSecond / 2) == 0);
  CHECK(book.TooMuch({.port = 5, .received = kMost + 1, .whole = 0}, kSecond / 2) == kMost + 1);
  // Nobody else has to do with it.
  CHECK(book.TooMuch({.port = 6, .received = 1000, .whole = 0}, kSecond / 2) == 0);
}

TEST_CASE("a connection over which messages come may bring any number of bytes") {
  UnreadBook book(kMost);
  uint64_t received = 0;
  for (uint32_t i = 1; i < 1000; ++i) {
    received += kMost;
    CHECK(book.TooMuch({.port = 5, .received = received, .whole = i}, i * kSecond) == 0);
  }
  CHECK(book.TooMuch({.port = 5, .received = received + kMost + 1, .whole = 999}, 999 * kSecond) == kMost + 1);
}

TEST_CASE("what only listens may bring a little for ever") {
  UnreadBook book(kMost);
  for (int64_t day = 0; day < 100; ++day) {
    CHECK(book.TooMuch({.port = 5, .received = static_cast<uint64_t>(day) * 86'400 * 1000, .whole = 1},
                       day * 86'400 * kSecond) == 0);
  }
}

TEST_CASE("another connection of the same port begins anew, also one that was forgotten") {
  UnreadBook book(kMost);
  CHECK(book.TooMuch({.port = 5, .received = kMost, .whole = 3}, 0) == 0);
  CHECK(book.TooMuch({.port = 5, .received = 1000 + kMost, .whole = 4}, 0) == 0);
  CHECK(book.TooMuch({.port = 5, .received = 500, .whole = 4}, 0) == 0);
  CHECK(book.TooMuch({.port = 5, .received = kMost + 1, .whole = 4}, 0) == kMost + 1);
  book.Keep({6});
  CHECK(book.TooMuch({.port = 5, .received = 500, .whole = 4}, 0) == 0);
  CHECK(book.TooMuch({.port = 5, .received = kMost, .whole = 4}, 0) == 0);
}

TEST_CASE("whole messages are counted by the peer's port, however gRPC writes the address") {
  const uint32_t before = ReceiptsOf(50001);
  NoteReceipt("ipv4:192.0.2.1:50001");
  NoteReceipt("ipv6:%5B2001:db8::1%5D:50001");
  NoteReceipt("ipv6:[2001:db8::1]:50001");
  for (const char* none : {"", "unix:", "unix:/run/muster/control.sock", "ipv4:192.0.2.1:", "ipv4:192.0.2.1:99999"})
    NoteReceipt(none);
  CHECK(ReceiptsOf(50001) == before + 3);
}

}  // namespace
}  // namespace muster
