#include <catch2/catch.hpp>
#include <set>

#include "common/base/rng.h"
#include "tests/unit/aggregate/deltas.h"

// The same operations, dealt at random to any number of initiators, agents, deltas and orders of arrival, give the same
// fleet figures bit for bit.
namespace muster::test {
namespace {

struct Operation {
  OpKind kind;
  int64_t interval;
  uint64_t wait, service, bytes;
  bool due, failed;
};

constexpr uint32_t kWarmup = 2, kWindow = 5;
constexpr int64_t kIntervals = kWarmup + kWindow;  // a delta after them is the drain

std::vector<Operation> Draw(Rng& rng, bool open) {
  std::vector<Operation> ops(1 + rng.Below(400));
  for (Operation& op : ops) {
    op.kind = static_cast<OpKind>(rng.Below(kOpKinds));
    op.interval = static_cast<int64_t>(rng.Below(kIntervals + 1));
    op.service = 1 + (rng.Next() >> (24 + rng.Below(36)));
    op.wait = open && rng.Below(2) == 0 ? rng.Below(1'000'000) : 0;
    op.bytes = 512 << rng.Below(8);
    op.due = open && op.interval >= kWarmup && rng.Below(4) != 0;
    op.failed = rng.Below(20) == 0;
  }
  return ops;
}

KindDelta Deal(OpKind kind, bool due, bool open, const std::vector<Operation>& ops, bool spell_out) {
  KindDelta delta;
  delta.kind = kind;
  delta.due_in_window = due;
  std::vector<uint64_t> response, wait, service, failed;
  for (const Operation& op : ops) {
    if (op.kind != kind || op.due != due) continue;
    if (op.failed) {
      failed.push_back(op.wait + op.service);
      continue;
    }
    ++delta.completed;
    delta.bytes += op.bytes;
    response.push_back(op.wait + op.service);
    wait.push_back(op.wait);
    service.push_back(op.service);
  }
  delta.response = Encoded(response);
  if (open || spell_out) {
    delta.wait = Encoded(wait);
    delta.service = Encoded(service);
  }
  if (!failed.empty()) delta.errors.push_back(Failure(Outcome::kIo, 5, failed));
  return delta;
}

StepFigures Aggregate(const std::vector<Operation>& ops, bool open, Rng& rng) {
  const uint32_t agents = 1 + static_cast<uint32_t>(rng.Below(4));
  const uint32_t initiators = agents + static_cast<uint32_t>(rng.Below(6));
  std::map<std::string, std::vector<uint32_t>> carried;
  for (uint32_t i = 0; i < initiators; ++i) carried["agent-" + std::to_string(i % agents)].push_back(i);
  PhaseShape shape = Shape(carried, kWarmup, kWindow, 0.5);
  if (open) shape.workload.pacing = Pacing::kFixed;
  PhaseAggregator aggregator(shape);

  std::vector<std::vector<std::vector<Operation>>> dealt(initiators,
                                                         std::vector<std::vector<Operation>>(kIntervals + 1));
  for (const Operation& op : ops) dealt[rng.Below(initiators)][op.interval].push_back(op);
  std::map<std::string, std::vector<IntervalDelta>> deltas;
  std::vector<std::string> turns;
  for (const auto& [agent, members] : carried) {
    for (int64_t k = 0; k <= kIntervals; ++k) {
      IntervalDelta delta = k == kIntervals ? Drain(k, {}) : Interval(k, {});
      for (uint32_t i : members) {
        InitiatorDelta initiator = Initiator(i, {});
        const bool spell_out = rng.Below(2) == 0;
        for (int kind = 0; kind < kOpKinds; ++kind) {
          for (bool due : {false, true}) {
            KindDelta d = Deal(static_cast<OpKind>(kind), due, open, dealt[i][k], spell_out);
            if (d.completed != 0 || !d.errors.empty()) initiator.kinds.push_back(std::move(d));
          }
        }
        delta.initiators.push_back(std::move(initiator));
      }
      deltas[agent].push_back(std::move(delta));
      turns.push_back(agent);
    }
  }
  for (size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[rng.Below(i)]);
  std::map<std::string, size_t> next;
  for (const std::string& agent : turns) REQUIRE(aggregator.Add(agent, deltas[agent][next[agent]++]).ok());
  for (const auto& [agent, all] : deltas) REQUIRE(aggregator.AddTotals(agent, TotalsOf(all)).ok());
  StepFigures figures = aggregator.Seal(kIntervals - 1);
  CHECK(figures.sums_error.ok());
  CHECK(figures.intervals == kWindow);

  // Every interval was handed out once, in order, and holds the same operations as the window.
  const auto complete = aggregator.TakeComplete();
  REQUIRE(complete.size() == kIntervals);
  uint64_t in_window = 0;
  for (size_t i = 0; i < complete.size(); ++i) {
    CHECK(complete[i].interval == static_cast<int64_t>(i));
    CHECK(complete[i].initiators.size() == initiators);
    for (const KindFigures& kind : complete[i].kinds) in_window += complete[i].in_window ? kind.completed : 0;
  }
  CHECK(in_window == Row(figures.fleet, std::nullopt).completed);
  return figures;
}

void CheckSame(const StepFigures& a, const StepFigures& b) {
  REQUIRE(a.fleet.kinds.size() == b.fleet.kinds.size());
  for (size_t i = 0; i < a.fleet.kinds.size(); ++i) {
    const KindFigures& x = a.fleet.kinds[i];
    const KindFigures& y = b.fleet.kinds[i];
    CHECK(x.kind == y.kind);
    CHECK(x.completed == y.completed);
    CHECK(x.bytes == y.bytes);
    CHECK(x.failed == y.failed);
    CHECK(x.response_max == y.response_max);
    CHECK(x.response == y.response);
    CHECK(x.wait == y.wait);
    CHECK(x.service == y.service);
  }
  REQUIRE(a.errors.size() == b.errors.size());
  for (size_t i = 0; i < a.errors.size(); ++i) {
    CHECK(a.errors[i].count == b.errors[i].count);
    CHECK(a.errors[i].response == b.errors[i].response);
  }
}

TEST_CASE("any split of the same operations gives bit-identical fleet figures") {
  const bool open = GENERATE(false, true);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed << (open ? " open" : " closed"));
    Rng rng(MixSeed(seed, open ? 1 : 0));
    const std::vector<Operation> ops = Draw(rng, open);
    // What one worker that sees everything would say.
    uint64_t completed = 0;
    std::vector<uint64_t> responses;
    for (const Operation& op : ops) {
      if (op.failed) continue;
      const bool rate = op.interval >= kWarmup && op.interval < kIntervals;
      completed += rate ? 1 : 0;
      if (open ? op.due : rate) responses.push_back(op.wait + op.service);
    }
    const StepFigures first = Aggregate(ops, open, rng);
    CHECK(Row(first.fleet, std::nullopt).completed == completed);
    CHECK(Row(first.fleet, std::nullopt).response == *Histogram::Decode(Encoded(responses)));
    for (int split = 0; split < 4; ++split) CheckSame(first, Aggregate(ops, open, rng));
  }
}

}  // namespace
}  // namespace muster::test
