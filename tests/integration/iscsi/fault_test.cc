// Targets and networks that fail: every operation comes back once, with an outcome, and the connection comes back too.
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "agent/backend/iscsi/sense.h"
#include "tests/integration/iscsi/connection.h"

namespace muster::test {
namespace {

constexpr uint32_t kDepth = 32;

// What became of the operations of a running load, by outcome. Each tag must come back exactly once.
struct Load {
  explicit Load(Connection& connection) : c(connection), busy(kDepth, false) {}
  Connection& c;
  std::vector<bool> busy;
  uint64_t accepted = 0;
  uint64_t ended = 0;
  std::array<uint64_t, 8> by_outcome{};

  uint64_t Count(IoOutcome outcome) const { return by_outcome.at(static_cast<size_t>(outcome)); }
  // One turn: offers all that is free, takes what has ended.
  void Turn(bool offer = true) {
    const SteadyClock& clock = SteadyClock::Get();
    if (offer) {
      std::vector<IoOp> ops;
      for (uint32_t i = 0; i < kDepth; ++i) {
        if (!busy[i]) ops.push_back(c.Op(i % 2 == 0 ? IoKind::kRead : IoKind::kWrite, i * 65536, 16384, i));
      }
      const size_t n = c.backend().Submit(ops, clock.Now());
      for (size_t i = 0; i < n; ++i) busy[ops[i].tag] = true;
      accepted += n;
    }
    std::array<IoCompletion, kDepth> out;
    const size_t n = c.backend().Reap(out, clock.Now());
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(out[i].tag < kDepth);
      REQUIRE(busy[out[i].tag]);
      busy[out[i].tag] = false;
      CHECK((out[i].outcome == IoOutcome::kOk) == (out[i].native_code == 0));
      ++by_outcome.at(static_cast<size_t>(out[i].outcome));
    }
    ended += n;
    REQUIRE(c.backend().outstanding() == accepted - ended);
    if (n == 0) c.backend().WaitUntil(clock.Now() + 5 * kMillisecond);
  }
  template <typename Done>
  void Until(Done done, bool offer = true) {
    const Nanos deadline = SteadyClock::Get().Now() + kMinute;
    while (!done()) {
      REQUIRE(SteadyClock::Get().Now() < deadline);
      Turn(offer);
    }
  }
  void Drain() {
    Until([&] { return c.backend().outstanding() == 0; }, false);
    CHECK(accepted == ended);
  }
};

struct Rig {
  Rig() {
    RequireTgtOrSkip();
    target = tgt.AddTarget(kTarget);
    path = tgt.AddLun(target, 1, {});
  }
  Tgt tgt;
  int target = 0;
  std::string path;
};

TEST_CASE("a target killed under load and started again") {
  Rig rig;
  Connection c(SpecFor(rig.tgt.port()), kDepth);
  c.Open();
  Load load(c);
  load.Until([&] { return load.ended > 200; });
  rig.tgt.Kill();
  load.Until([&] { return c.Counter("connections lost") == 1; });
  CHECK(load.Count(IoOutcome::kIo) + load.Count(IoOutcome::kOk) == load.ended);
  CHECK(c.backend().outstanding() == 0);
  CHECK(c.backend().down_time() >= 0);
  load.Until([&] { return c.Counter("failed reconnects") >= 1; });
  CHECK(c.Parameter("last failed reconnect").find("ISCSI_CONNECT") != std::string::npos);
  const uint64_t accepted = load.accepted;
  for (int i = 0; i < 10; ++i) load.Turn();
  CHECK(load.accepted == accepted);  // nothing while it is down
  rig.tgt.Restart();
  const uint64_t well = load.Count(IoOutcome::kOk);
  load.Until([&] { return load.Count(IoOutcome::kOk) > well + 200; });
  load.Drain();
  CHECK(c.Counter("reconnects") >= 1);
  CHECK(c.backend().down_time() >= 100 * kMillisecond);
  CHECK(load.Count(IoOutcome::kIo) >= 1);
  CHECK(load.Count(IoOutcome::kTimeout) == 0);
}

TEST_CASE("a target that stands still for less than the timeout costs time, nothing else") {
  Rig rig;
  Connection c(SpecFor(rig.tgt.port()), kDepth);
  c.Open();
  Load load(c);
  load.Until([&] { return load.ended > 200; });
  rig.tgt.Stop();
  const Nanos stopped = SteadyClock::Get().Now();
  load.Until([&] { return SteadyClock::Get().Now() > stopped + 500 * kMillisecond; });
  rig.tgt.Continue();
  load.Until([&] { return load.ended > 1000; });
  load.Drain();
  CHECK(load.Count(IoOutcome::kOk) == load.ended);
  CHECK(c.Counter("connections lost") == 0);
  CHECK(c.backend().down_time() == 0);
}

TEST_CASE("a target that stands still for longer: timed out, the others failed, and on again") {
  Rig rig;
  Connection c(SpecFor(rig.tgt.port()), kDepth);
  c.op_timeout = 300 * kMillisecond;
  c.Open();
  Load load(c);
  load.Until([&] { return load.ended > 200; });
  rig.tgt.Stop();
  load.Until([&] { return load.Count(IoOutcome::kTimeout) > 0; });
  CHECK(load.Count(IoOutcome::kOk) + load.Count(IoOutcome::kTimeout) + load.Count(IoOutcome::kIo) == load.ended);
  CHECK(c.backend().outstanding() == 0);
  rig.tgt.Continue();
  const uint64_t well = load.Count(IoOutcome::kOk);
  load.Until([&] { return load.Count(IoOutcome::kOk) > well + 200; });
  load.Drain();
  CHECK(c.Counter("operations timed out") == load.Count(IoOutcome::kTimeout));
  CHECK(c.Counter("reconnects") >= 1);
}

TEST_CASE("a reset on the way") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), kDepth);
  c.Open();
  Load load(c);
  for (uint64_t round = 1; round <= 5; ++round) {
    const uint64_t well = load.Count(IoOutcome::kOk);
    load.Until([&] { return load.Count(IoOutcome::kOk) > well + 100; });
    proxy.Reset();
    load.Until([&] { return c.Counter("connections lost") == round; });
  }
  load.Until([&] { return c.Counter("reconnects") == 5; });
  load.Drain();
  CHECK(load.Count(IoOutcome::kOk) + load.Count(IoOutcome::kIo) == load.ended);
  CHECK(proxy.accepted() == 6);
  CHECK(proxy.transfers() <= load.accepted);  // nothing was sent twice
  CHECK(proxy.transfers() >= load.Count(IoOutcome::kOk));
}

TEST_CASE("delayed answers") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), kDepth);
  c.Open();
  proxy.Delay(20 * kMillisecond);
  const Nanos begin = SteadyClock::Get().Now();
  CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
  CHECK(SteadyClock::Get().Now() - begin >= 20 * kMillisecond);
  Load load(c);
  load.Until([&] { return load.ended > 200; });
  load.Drain();
  CHECK(load.Count(IoOutcome::kOk) == load.ended);
}

TEST_CASE("a header that does not pass its digest ends the connection, not the test") {
  Rig rig;
  rig.tgt.Set(rig.target, "HeaderDigest", "CRC32C");
  IscsiProxy proxy(rig.tgt.port(), true);
  IscsiConnectionSpec spec = SpecFor(proxy.port());
  spec.header_digest = IscsiHeaderDigest::kCrc32c;
  Connection c(spec, kDepth);
  c.Open();
  Load load(c);
  load.Until([&] { return load.ended > 100; });
  proxy.FlipNextAnswer();
  load.Until([&] { return c.Counter("connections lost") == 1; });
  CHECK(c.Counter("header digest mismatches") == 1);
  CHECK(c.Counter("EBADMSG") == 1);
  CHECK(load.Count(IoOutcome::kIo) >= 1);
  uint64_t well = load.Count(IoOutcome::kOk);
  load.Until([&] { return load.Count(IoOutcome::kOk) > well + 100; });
  // In the other direction it is the target that notices.
  proxy.FlipNextRequest();
  load.Until([&] { return c.Counter("connections lost") == 2; });
  well = load.Count(IoOutcome::kOk);
  load.Until([&] { return load.Count(IoOutcome::kOk) > well + 100; });
  load.Drain();
  CHECK(c.Counter("header digest mismatches") == 1);
}

TEST_CASE("an answer that comes after the timeout finds no buffer") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), 4, 8 << 20);
  c.op_timeout = 200 * kMillisecond;
  c.Open();
  proxy.HoldReads(true);
  // The second is large: the held answers are more than the sockets between take, so it is cut in its middle.
  c.SubmitAll({c.Op(IoKind::kRead, 0, 65536, 0), c.Op(IoKind::kRead, 0, 8 << 20, 1)});
  const std::vector<IoCompletion> ended = c.Collect(2);
  CHECK(std::count_if(ended.begin(), ended.end(), [](const IoCompletion& e) {
          return e.outcome == IoOutcome::kTimeout && e.native_code == ETIMEDOUT;
        }) >= 1);
  for (const IoCompletion& e : ended) CHECK(e.outcome != IoOutcome::kOk);
  std::memset(c.buffer(0), 0x5a, size_t{4} * (8 << 20));
  proxy.HoldReads(false);
  c.DriveUntil([&] { return c.Counter("reconnects") >= 1; });
  CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 4096, 3)).outcome == IoOutcome::kOk);
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(std::all_of(c.buffer(i), c.buffer(i) + (8 << 20), [](uint8_t b) { return b == 0x5a; }));
  }
}

TEST_CASE("the descriptor to wait for stays the same over reconnects, and wakes") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), 4);
  c.Open();
  Backend& backend = c.backend();
  const int fd = backend.WaitFd();
  for (uint64_t round = 1; round <= 3; ++round) {
    proxy.Reset();
    const Nanos deadline = SteadyClock::Get().Now() + kMinute;
    std::array<IoCompletion, 4> out;
    while (c.Counter("reconnects") < round) {
      REQUIRE(SteadyClock::Get().Now() < deadline);
      pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
      const Nanos wait = std::clamp<Nanos>(backend.NextTimer() - SteadyClock::Get().Now(), 0, 20 * kSecond);
      const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
      ppoll(&p, 1, &ts, nullptr);  // a wake-up missed here would be the time limit
      CHECK(backend.Reap(out, SteadyClock::Get().Now()) == 0);
    }
    CHECK(backend.WaitFd() == fd);
    const IoOp op = c.Op(IoKind::kRead, 0, 4096);
    REQUIRE(backend.Submit({&op, 1}, SteadyClock::Get().Now()) == 1);
    pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
    REQUIRE(poll(&p, 1, 20'000) == 1);
    CHECK(c.Collect(1).at(0).outcome == IoOutcome::kOk);
  }
}

TEST_CASE("BUSY and TASK SET FULL are retried inside the operation's time") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), 4);
  c.op_timeout = 3 * kSecond;  // retries take some milliseconds, the last case all of it
  c.Open();
  FillRandom(c.buffer(0), 4096, 1);
  proxy.AnswerNext(3, kScsiTaskSetFull);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOk);
  proxy.AnswerNext(1, kScsiBusy);
  CHECK(c.RunOne(c.Op(IoKind::kFlush, 0, 0)).outcome == IoOutcome::kOk);
  CHECK(c.Counter("TASK SET FULL") == 3);
  CHECK(c.Counter("BUSY") == 1);
  CHECK(c.Counter("retries after BUSY or TASK SET FULL") == 4);
  CHECK(c.Counter("connections lost") == 0);

  proxy.AnswerNext(1'000'000, kScsiTaskSetFull);
  const IoCompletion never = c.RunOne(c.Op(IoKind::kWrite, 0, 4096));
  CHECK(never.outcome == IoOutcome::kTimeout);
  CHECK(never.native_code == ETIMEDOUT);
  proxy.AnswerNext(0, 0);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOk);
}

TEST_CASE("other statuses end the operation, classified and counted by name") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), 4);
  c.Open();
  proxy.AnswerNext(1, kScsiReservationConflict);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOther);
  CHECK(c.Counter("RESERVATION CONFLICT") == 1);
  proxy.AnswerNext(1, kScsiTaskAborted);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kAborted);
  CHECK(c.Counter("TASK ABORTED") == 1);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOk);
  CHECK(c.Counter("connections lost") == 0);
}

TEST_CASE("a unit attention is taken by one retry") {
  Rig rig;
  Connection c(SpecFor(rig.tgt.port()), 4);
  c.Open();
  CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
  rig.tgt.AddLun(rig.target, 2, {.bytes = 1 << 20});
  CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
  CHECK(c.Counter("retries after UNIT ATTENTION") == 1);
  CHECK(c.Counter("UNIT ATTENTION 3F/0E reported LUNs data has changed") == 1);
}

TEST_CASE("sessions of one initiator live side by side") {
  Rig rig;
  IscsiConnectionSpec spec = SpecFor(rig.tgt.port());
  Connection first(spec, 4);
  first.Open();
  spec.isid_qualifier = 1;
  Connection second(spec, 4);
  second.Open();
  for (int i = 0; i < 20; ++i) {
    CHECK(first.RunOne(first.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
    CHECK(second.RunOne(second.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
  }
  CHECK(first.Counter("connections lost") + second.Counter("connections lost") == 0);
}

TEST_CASE("several connections of one thread, waited for together") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  constexpr uint32_t kConnections = 8;
  constexpr uint64_t kOps = 400;
  const int all = epoll_create1(EPOLL_CLOEXEC);
  std::vector<std::unique_ptr<Connection>> connections;
  for (uint32_t i = 0; i < kConnections; ++i) {
    IscsiConnectionSpec spec = SpecFor(proxy.port());
    spec.isid_qualifier = static_cast<uint16_t>(i);
    connections.push_back(std::make_unique<Connection>(spec, 4));
    connections.back()->Open();
    epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
    REQUIRE(epoll_ctl(all, EPOLL_CTL_ADD, connections.back()->backend().WaitFd(), &event) == 0);
  }
  std::vector<uint64_t> well(kConnections, 0);
  bool reset = false;
  const SteadyClock& clock = SteadyClock::Get();
  const Nanos deadline = clock.Now() + kMinute;
  const auto poll_one = [&](uint32_t i) {
    std::array<IoCompletion, 4> out;
    Backend& backend = connections[i]->backend();
    const size_t n = backend.Reap(out, clock.Now());
    for (size_t k = 0; k < n; ++k) well[i] += out[k].outcome == IoOutcome::kOk ? 1 : 0;
    while (backend.outstanding() < 4) {
      const IoOp op = connections[i]->Op(IoKind::kRead, 4096 * (well[i] % 64), 4096, backend.outstanding());
      if (backend.Submit({&op, 1}, clock.Now()) == 0) break;
    }
  };
  for (uint32_t i = 0; i < kConnections; ++i) poll_one(i);
  const auto all_back = [&] {
    return std::all_of(connections.begin(), connections.end(),
                       [](const auto& c) { return c->Counter("reconnects") == 1; });
  };
  while (*std::min_element(well.begin(), well.end()) < kOps || !all_back()) {
    REQUIRE(clock.Now() < deadline);
    Nanos until = clock.Now() + 20 * kSecond;  // a wake-up missed here would be the time limit
    for (const auto& c : connections) until = std::min(until, c->backend().NextTimer());
    const Nanos wait = std::max<Nanos>(until - clock.Now(), 0);
    const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    std::array<epoll_event, kConnections> ready;
    const int n = epoll_pwait2(all, ready.data(), kConnections, &ts, nullptr);
    for (int k = 0; k < n; ++k) poll_one(ready[static_cast<size_t>(k)].data.u32);
    for (uint32_t i = 0; i < kConnections; ++i) {
      if (clock.Now() >= connections[i]->backend().NextTimer()) poll_one(i);
    }
    if (!reset && *std::min_element(well.begin(), well.end()) > kOps / 2) {
      proxy.Reset();
      reset = true;
    }
  }
  for (const auto& c : connections) CHECK(c->Counter("connections lost") == 1);
  close(all);
}

TEST_CASE("Abort and Close end what hangs") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  Connection c(SpecFor(proxy.port()), 8);
  c.Open();
  proxy.HoldReads(true);
  std::vector<IoOp> ops;
  for (uint32_t i = 0; i < 8; ++i) ops.push_back(c.Op(IoKind::kRead, i * 4096, 4096, i));
  for (int round = 0; round < 3; ++round) {
    c.SubmitAll(ops);
    c.DriveUntil([&] { return proxy.held() == 1; });
    c.backend().Abort();
    for (const IoCompletion& done : c.Collect(8)) {
      CHECK(done.outcome == IoOutcome::kAborted);
      CHECK(done.native_code == ECANCELED);
    }
  }
  c.SubmitAll(ops);
  CHECK(c.backend().outstanding() == 8);
  CHECK(c.backend().Close());
  CHECK(c.backend().outstanding() == 0);
  CHECK(c.backend().Close());
}

}  // namespace
}  // namespace muster::test
