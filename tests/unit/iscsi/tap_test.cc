// The calls that are wrapped at the link: with a tap on the thread, and without one.
#include "agent/backend/iscsi/tap.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

namespace muster {
namespace {

volatile sig_atomic_t pipe_signals = 0;

TEST_CASE("writev raises no SIGPIPE under a tap") {
  struct sigaction before {};
  struct sigaction counting {};
  counting.sa_handler = [](int) { pipe_signals = pipe_signals + 1; };
  REQUIRE(sigaction(SIGPIPE, &counting, &before) == 0);
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  char bytes[] = "bytes";
  const iovec vectors[] = {{bytes, 2}, {bytes + 2, 3}};
  LibiscsiTap tap;
  {
    const TapScope scope(&tap);
    CHECK(writev(ends[0], vectors, 2) == 5);
  }
  char got[8] = "";
  CHECK(read(ends[1], got, sizeof got) == 5);
  CHECK(std::strcmp(got, "bytes") == 0);
  close(ends[1]);
  {
    const TapScope scope(&tap);
    CHECK(writev(ends[0], vectors, 2) == -1);
    CHECK(errno == EPIPE);
    CHECK(pipe_signals == 0);
  }
  CHECK(writev(ends[0], vectors, 2) == -1);
  CHECK(pipe_signals == 1);
  close(ends[0]);
  sigaction(SIGPIPE, &before, nullptr);
}

TEST_CASE("connect binds under a tap that has a source, and only then") {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof server;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&server), bytes) == 0);
  REQUIRE(listen(listener, 8) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&server), &bytes) == 0);
  const auto source_of = [&](LibiscsiTap* tap) {
    const TapScope scope(tap);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::string text = "none";
    if (connect(fd, reinterpret_cast<sockaddr*>(&server), sizeof server) == 0) {
      sockaddr_in local{};
      socklen_t local_bytes = sizeof local;
      getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_bytes);
      char address[INET_ADDRSTRLEN];
      text = inet_ntop(AF_INET, &local.sin_addr, address, sizeof address);
    }
    close(fd);
    return text;
  };
  CHECK(source_of(nullptr) == "127.0.0.1");
  LibiscsiTap plain;
  CHECK(source_of(&plain) == "127.0.0.1");
  LibiscsiTap tap;
  auto* const in4 = reinterpret_cast<sockaddr_in*>(&tap.source);
  in4->sin_family = AF_INET;
  tap.source_bytes = sizeof *in4;
  REQUIRE(inet_pton(AF_INET, "127.0.0.9", &in4->sin_addr) == 1);
  CHECK(source_of(&tap) == "127.0.0.9");
  CHECK(source_of(nullptr) == "127.0.0.1");
  REQUIRE(inet_pton(AF_INET, "198.51.100.7", &in4->sin_addr) == 1);
  CHECK(source_of(&tap) == "none");
  CHECK(tap.bind_errno == EADDRNOTAVAIL);
  close(listener);
}

}  // namespace
}  // namespace muster
