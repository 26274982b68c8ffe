#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/session/driver_pinning.h"
#include "agent/session/driver_watch.h"
#include "common/base/queue.h"

namespace muster::agent {
namespace {

TEST_CASE("the watch hears signals and the end of a pipe") {
  ExitWatch::BlockSignals();
  int life[2];
  REQUIRE(pipe2(life, O_CLOEXEC) == 0);
  BoundedQueue<std::string> heard(8);
  {
    const ExitWatch watch(life[0], [&](const std::string& why) { heard.TryPush(std::string(why)); });
    REQUIRE(write(life[1], "x", 1) == 1);  // data is no end
    close(life[1]);
    const auto pipe = heard.Pop(20 * kSecond);
    REQUIRE(pipe);
    CHECK(pipe->find("started this agent") != std::string::npos);
    kill(getpid(), SIGTERM);
    const auto signal = heard.Pop(20 * kSecond);
    REQUIRE(signal);
    CHECK(signal->find("signal") != std::string::npos);
  }
  CHECK(heard.size() == 0);
  close(life[0]);
}

TEST_CASE("pinning: as told, or when alone and paced") {
  CHECK(WithPinning({}, PinMode::kYes, false, false).pin);
  CHECK_FALSE(WithPinning({}, PinMode::kNo, true, true).pin);
  CHECK(WithPinning({}, PinMode::kAuto, true, true).pin);
  CHECK(WithPinning({}, PinMode::kAuto, true, true).may_spin);
  CHECK_FALSE(WithPinning({}, PinMode::kAuto, true, false).pin);
  CHECK_FALSE(WithPinning({}, PinMode::kAuto, true, false).may_spin);
  CHECK_FALSE(WithPinning({}, PinMode::kAuto, false, true).may_spin);
}

}  // namespace
}  // namespace muster::agent
