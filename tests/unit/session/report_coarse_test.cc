// A full report log: histograms merge over the intervals of one part of the phase, nothing is missing.
#include <catch2/catch.hpp>

#include "agent/session/report_log.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster::agent {
namespace {

const PhaseKey kKey{.run = "r", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};

IntervalDelta Delta(int64_t interval, Rng& rng, Histogram& all, bool drain = false) {
  IntervalDelta delta;
  delta.interval = interval;
  delta.drain = drain;
  InitiatorDelta& initiator = delta.initiators.emplace_back();
  initiator.initiator = 3;
  Histogram histogram;
  for (int i = 0; i < 4'000; ++i) histogram.Record(1 + rng.Below(uint64_t{1} << 30));
  KindDelta& kind = initiator.kinds.emplace_back();
  kind.completed = histogram.count();
  kind.response = histogram.Encode();
  REQUIRE(all.Merge(histogram).ok());
  return delta;
}

struct Arrived {
  Histogram whole[3], merged[3];  // warm-up, window, drain
  uint64_t intervals = 0, coarse = 0, held_intervals[3] = {};
  Moments moments;
  PhaseTotals totals;
};

Arrived Drain(ReportLog& log, int64_t warmup) {
  Arrived out;
  uint64_t expected = log.committed() + 1;
  while (const auto report = log.NextToSend()) {
    CHECK(report->sequence == expected++);
    const auto part = [&](int64_t k, bool drain) { return drain ? 2 : k < warmup ? 0 : 1; };
    if (const auto* delta = std::get_if<IntervalDelta>(&report->body)) {
      ++out.intervals;
      out.coarse += delta->initiators[0].held ? 1 : 0;
      const EncodedHistogram& response = delta->initiators[0].kinds[0].response;
      CHECK(delta->initiators[0].kinds[0].completed == response.moments.count);
      REQUIRE(out.moments.Merge(response.moments).ok());
      if (!delta->initiators[0].held) REQUIRE(out.whole[part(delta->interval, delta->drain)].Merge(response).ok());
    } else if (const auto* held = std::get_if<HeldHistograms>(&report->body)) {
      const int p = part(held->last_interval, held->drain);
      CHECK(p == part(held->first_interval, held->drain));
      CHECK(out.held_intervals[p] == 0);  // once
      out.held_intervals[p] = held->intervals;
      REQUIRE(out.merged[p].Merge(held->kind->response).ok());
    } else {
      out.totals = std::get<PhaseEnded>(report->body).totals;
      CHECK(out.totals.last_sequence == report->sequence);
    }
    REQUIRE(log.Commit(report->sequence).ok());
  }
  return out;
}

TEST_CASE("a full log becomes coarse: every operation is there, warm-up and window apart") {
  Rng rng(7);
  Histogram warmup, window, drain;
  ReportLog log({.bytes = 60'000});
  for (int64_t k = 0; k < 20; ++k) REQUIRE(log.Append(kKey, Delta(k, rng, k < 8 ? warmup : window), 8).ok());
  REQUIRE(log.Append(kKey, Delta(20, rng, drain, true), 8).ok());
  CHECK(log.bytes() <= 60'000 + 20'000);
  log.AppendEnd(kKey, {});
  const Arrived arrived = Drain(log, 8);
  CHECK(arrived.intervals == 21);
  CHECK(arrived.coarse > 0);
  CHECK(arrived.totals.coarse_deltas == arrived.coarse);
  CHECK(arrived.held_intervals[0] + arrived.held_intervals[1] + arrived.held_intervals[2] == arrived.coarse);
  const Histogram* truth[3] = {&warmup, &window, &drain};
  Moments all;
  for (int p = 0; p < 3; ++p) {
    Histogram sum = arrived.whole[p];
    REQUIRE(sum.Merge(arrived.merged[p]).ok());
    CHECK(sum == *truth[p]);
    REQUIRE(all.Merge(truth[p]->moments()).ok());
  }
  CHECK(arrived.moments == all);
}

TEST_CASE("what is on its way is never made coarse; what has not arrived with the link may be") {
  Rng rng(8);
  Histogram all;
  ReportLog log({.bytes = 60'000, .window_reports = 2});
  REQUIRE(log.Append(kKey, Delta(0, rng, all)).ok());
  REQUIRE(log.Append(kKey, Delta(1, rng, all)).ok());
  const auto first = log.NextToSend();
  const auto second = log.NextToSend();
  REQUIRE(second != nullptr);
  int64_t k = 2;
  for (; k < 12; ++k) REQUIRE(log.Append(kKey, Delta(k, rng, all)).ok());
  REQUIRE(log.Resume(0, 0).ok());
  CHECK(log.unsent() == 12);
  CHECK(std::get<IntervalDelta>(log.NextToSend()->body) == std::get<IntervalDelta>(first->body));
  CHECK(std::get<IntervalDelta>(log.NextToSend()->body) == std::get<IntervalDelta>(second->body));
  CHECK(log.NextToSend() == nullptr);
  REQUIRE(log.Resume(1, 2).ok());
  CHECK(log.committed() == 1);
  CHECK(log.NextToSend()->sequence == 3);
  CHECK(GetErrorInfo(log.Resume(2, 1)).code == "BAD_ACK");
  CHECK(GetErrorInfo(log.Resume(1, 4)).code == "BAD_ACK");
}

TEST_CASE("histograms that the report bound has held join those of coarse intervals") {
  Rng rng(9);
  Histogram all;
  ReportLog log({.bytes = 30'000});
  for (int64_t k = 0; k < 10; ++k) REQUIRE(log.Append(kKey, Delta(k, rng, all)).ok());
  // Interval 10 was beyond the report bound: its histograms come apart.
  IntervalDelta bare = Delta(10, rng, all);
  HeldHistograms held{.initiator = 3, .first_interval = 10, .last_interval = 10, .intervals = 1};
  held.kind = bare.initiators[0].kinds[0];
  bare.initiators[0].held = true;
  bare.initiators[0].kinds[0].response.counts.clear();
  REQUIRE(log.Append(kKey, bare).ok());
  REQUIRE(log.Append(kKey, held).ok());
  log.AppendEnd(kKey, {});
  Arrived arrived = Drain(log, 0);
  CHECK(arrived.coarse > 1);
  CHECK(arrived.held_intervals[1] == arrived.coarse);
  REQUIRE(arrived.whole[1].Merge(arrived.merged[1]).ok());
  CHECK(arrived.whole[1] == all);
}

TEST_CASE("a log that even that does not help is full") {
  Rng rng(10);
  Histogram all;
  ReportLog log({.bytes = 12'000});
  absl::Status full;
  for (int64_t k = 0; k < 100 && full.ok(); ++k) full = log.Append(kKey, Delta(k, rng, all));
  CHECK(GetErrorInfo(full).code == "REPORT_LOG_FULL");
}

}  // namespace
}  // namespace muster::agent
