#include "agent/session/report_log.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster::agent {
namespace {

const PhaseKey kKey{.run = "r", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};

IntervalDelta Delta(int64_t interval, size_t payload = 100) {
  IntervalDelta delta;
  delta.interval = interval;
  delta.hiccup.counts = std::string(payload, 'x');
  return delta;
}

TEST_CASE("sequences rise by one over the life of the process") {
  ReportLog log;
  REQUIRE(log.Append(kKey, Delta(0)).ok());
  REQUIRE(log.Append(kKey, Delta(1)).ok());
  log.AppendEnd(kKey, {});
  uint64_t expected = 1;
  while (auto report = log.NextToSend()) CHECK(report->sequence == expected++);
  CHECK(expected == 4);
  CHECK(log.Forget() == 3);
  CHECK(log.empty());
  REQUIRE(log.Append(kKey, Delta(0)).ok());
  CHECK(log.NextToSend()->sequence == 4);
}

TEST_CASE("the end names the last sequence of its phase") {
  ReportLog log;
  REQUIRE(log.Append(kKey, Delta(0)).ok());
  log.AppendEnd(kKey, {});
  log.NextToSend();
  const auto end = log.NextToSend();
  CHECK(std::get<PhaseEnded>(end->body).totals.last_sequence == 2);
  CHECK(end->sequence == 2);
}

TEST_CASE("held histograms are numbered and bounded like intervals") {
  ReportLog log({.bytes = 4000});
  HeldHistograms held{.initiator = 3, .first_interval = 0, .last_interval = 4, .intervals = 5};
  held.kind.emplace().response.counts = std::string(1000, 'x');
  REQUIRE(log.Append(kKey, Delta(0)).ok());
  REQUIRE(log.Append(kKey, held).ok());
  log.NextToSend();
  const auto report = log.NextToSend();
  REQUIRE(report != nullptr);
  CHECK(report->sequence == 2);
  CHECK(std::get<HeldHistograms>(report->body) == held);
  held.kind->wait.counts = std::string(2500, 'x');
  CHECK(GetErrorInfo(log.Append(kKey, held)).code == "REPORT_LOG_FULL");
  CHECK(log.last_sequence() == 2);
}

TEST_CASE("reports stay until they are committed") {
  ReportLog log;
  for (int i = 0; i < 5; ++i) REQUIRE(log.Append(kKey, Delta(i)).ok());
  for (int i = 0; i < 3; ++i) REQUIRE(log.NextToSend() != nullptr);
  const size_t all = log.bytes();
  REQUIRE(log.Commit(2).ok());
  CHECK(log.size() == 3);
  CHECK(log.bytes() == all / 5 * 3);
  CHECK(log.committed() == 2);
  CHECK(log.NextToSend()->sequence == 4);
  REQUIRE(log.Commit(2).ok());  // said twice
}

TEST_CASE("an acknowledgement of what was never sent is refused, a step back says nothing") {
  ReportLog log;
  for (int i = 0; i < 3; ++i) REQUIRE(log.Append(kKey, Delta(i)).ok());
  log.NextToSend();
  log.NextToSend();
  CHECK(GetErrorInfo(log.Commit(3)).code == "BAD_ACK");
  REQUIRE(log.Commit(2).ok());
  CHECK(log.Commit(1).ok());
  CHECK(GetErrorInfo(log.Commit(3)).code == "BAD_ACK");
  CHECK(log.size() == 1);
  CHECK(log.committed() == 2);
}

TEST_CASE("the window bounds what is on its way; acknowledgements open it") {
  ReportLog log({.bytes = 1 << 20, .window_bytes = 1 << 20, .window_reports = 2});
  for (int i = 0; i < 4; ++i) REQUIRE(log.Append(kKey, Delta(i)).ok());
  CHECK(log.NextToSend() != nullptr);
  CHECK(log.NextToSend() != nullptr);
  CHECK(log.NextToSend() == nullptr);
  REQUIRE(log.Commit(1).ok());
  CHECK(log.NextToSend()->sequence == 3);
  CHECK(log.NextToSend() == nullptr);

  const size_t one = MemoryOf(Delta(0));
  ReportLog narrow({.bytes = 1 << 20, .window_bytes = one / 2, .window_reports = 100});
  REQUIRE(narrow.Append(kKey, Delta(0)).ok());
  REQUIRE(narrow.Append(kKey, Delta(1)).ok());
  CHECK(narrow.NextToSend() != nullptr);  // one always may
  CHECK(narrow.NextToSend() == nullptr);
}

TEST_CASE("a full log says so, spends no number, and still takes the end of the phase") {
  ReportLog log({.bytes = 3 * MemoryOf(Delta(0)), .window_bytes = 1 << 20, .window_reports = 64});
  for (int i = 0; i < 3; ++i) REQUIRE(log.Append(kKey, Delta(i)).ok());
  const absl::Status full = log.Append(kKey, Delta(3));
  CHECK(GetErrorInfo(full).code == "REPORT_LOG_FULL");
  CHECK(GetErrorInfo(full).message.find("interval 3") != std::string::npos);
  CHECK(log.last_sequence() == 3);
  log.AppendEnd(kKey, {});
  CHECK(log.last_sequence() == 4);
}

TEST_CASE("the size of a delta counts what it holds") {
  IntervalDelta small = Delta(0, 0);
  IntervalDelta large = Delta(0, 0);
  large.initiators.resize(1);
  large.initiators[0].kinds.resize(1);
  large.initiators[0].kinds[0].response.counts = std::string(50'000, 'c');
  large.initiators[0].kinds[0].errors.resize(1);
  large.initiators[0].kinds[0].errors[0].response.counts = std::string(7'000, 'c');
  CHECK(MemoryOf(large) >= MemoryOf(small) + 57'000);
}

}  // namespace
}  // namespace muster::agent
