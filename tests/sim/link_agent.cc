#include "tests/sim/link_agent.h"

#include <fmt/format.h>

namespace muster::sim {
namespace {

agent::SessionOptions SessionOf(const LinkAgent::Options& options) {
  agent::SessionOptions out;
  out.hello = {.api_min = 3,
               .api_max = 3,
               .build = "agent",
               .agent_id = options.id,
               .instance = options.instance,
               .host_id = options.id,
               .boot_id = "boot of " + options.id,
               .hostname = "host of " + options.id};
  out.log.bytes = options.log_bytes;
  return out;
}

}  // namespace

LinkAgent::LinkAgent(Options options, uint64_t seed, SimQueue& queue, Out out)
    : options_(std::move(options)),
      rng_(seed),
      data_(MixSeed(seed, 1)),
      queue_(queue),
      out_(std::move(out)),
      machine_(SessionOf(options_)) {}

void LinkAgent::Feed(const agent::Event& event) {
  if (dead_) return;
  waiting_.push_back(event);
  if (feeding_) return;
  feeding_ = true;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const agent::Event next = waiting_[i];
    for (const agent::Action& action : machine_.Step(next, now())) Carry(action);
  }
  waiting_.clear();
  feeding_ = false;
  Wake();
}

// As the driver's wait for the next deadline.
void LinkAgent::Wake() {
  const Nanos due = machine_.NextDeadline();
  if (dead_ || due >= kNever) return;
  const Nanos at = std::max(due + options_.clock_offset, queue_.now() + (due <= now() ? 1 : 0));
  if (wake_ <= at && wake_ > queue_.now()) return;
  wake_ = at;
  queue_.At(at, [this, at] {
    if (wake_ != at) return;
    wake_ = kNever;
    Feed(agent::Tick{});
  });
}

void LinkAgent::Later(agent::Event event) {
  queue_.In(static_cast<Nanos>(rng_.Below(50)) * kMillisecond, [this, event = std::move(event)] { Feed(event); });
}

void LinkAgent::Carry(const agent::Action& action) {
  if (const auto* a = std::get_if<agent::Dial>(&action)) return out_.dial(a->link, a->hello);
  if (std::holds_alternative<agent::CloseLink>(action)) return out_.close();
  if (const auto* a = std::get_if<agent::Say>(&action)) return out_.say(*a);
  if (const auto* a = std::get_if<agent::SendReport>(&action)) return out_.report(a->report);
  if (const auto* a = std::get_if<agent::Note>(&action)) return out_.note(options_.id + " notes: " + a->text);
  if (std::holds_alternative<agent::DoAttach>(action)) return Later(agent::AttachFinished{.generation = 7});
  if (std::holds_alternative<agent::DoInspect>(action)) return Later(agent::InspectFinished{});
  if (std::holds_alternative<agent::DoDetach>(action)) return Later(agent::DetachFinished{});
  if (const auto* a = std::get_if<agent::DoPrepare>(&action)) {
    if (engine_) out_.broken(options_.id + ": a second engine was prepared");
    engine_.emplace();
    engine_->number = a->engine;
    engine_->spec = a->spec;
    truth_.erase(a->spec.key.step);  // an earlier attempt does not count
    return Later(agent::PrepareFinished{.memory_bytes = 1});
  }
  if (std::holds_alternative<agent::DoRelease>(action)) {
    engine_.reset();
    return Later(agent::ReleaseFinished{.joined = true});
  }
  if (const auto* a = std::get_if<agent::SetLease>(&action)) lease_ = a->end;
  if (const auto* a = std::get_if<agent::SetClock>(&action)) offset_ = a->estimate.offset;
  if (const auto* a = std::get_if<agent::EngineStart>(&action)) {
    Engine& engine = *engine_;
    engine.running = true;
    engine.t0 = a->t0_fleet - offset_;
    const auto& measure = std::get<MeasureSpec>(engine.spec.work);
    engine.last = int64_t{measure.warmup_intervals} + measure.window_intervals - 1;
    queue_.At(engine.t0 + options_.clock_offset + 1, [this, number = engine.number] {
      if (engine_ && engine_->number == number && engine_->running) {
        Feed(agent::EngineFirstIo{.engine = number, .local = now()});
      }
    });
    queue_.At(engine.t0 + options_.clock_offset + engine.spec.interval,
              [this, number = engine.number] { Edge(number); });
  }
  if (const auto* a = std::get_if<agent::EngineStopAfter>(&action)) {
    if (engine_) engine_->last = std::min(engine_->last, std::max(a->interval, engine_->next));
  }
  if (std::holds_alternative<agent::EngineAbort>(action) && engine_) {
    queue_.In(kMillisecond, [this, number = engine_->number] { End(number, true); });
  }
}

void LinkAgent::Edge(uint64_t number) {
  if (dead_ || !engine_ || engine_->number != number || !engine_->running) return;
  Engine& engine = *engine_;
  const int64_t k = engine.next++;
  const auto& measure = std::get<MeasureSpec>(engine.spec.work);
  IntervalDelta delta{.interval = k, .length = engine.spec.interval, .cpu_nanos = 1};
  // The last operation of the interval was issued just before its edge: workers would not have without a lease.
  const bool leased = now() - 1 < lease_;
  if (now() - 2 * kMillisecond > lease_) out_.broken(options_.id + ": the load goes on after the lease's end");
  for (uint32_t initiator : engine.spec.initiators) {
    InitiatorDelta& out = delta.initiators.emplace_back();
    out.initiator = initiator;
    Histogram histogram;
    const uint64_t count = leased ? 1 + data_.Below(options_.ops) : 0;
    for (uint64_t i = 0; i < count; ++i) histogram.Record(1 + data_.Below(uint64_t{1} << 30));
    KindDelta& kind = out.kinds.emplace_back();
    kind.completed = count;
    kind.bytes = count * measure.workload.block;
    kind.response = histogram.Encode();
    KindTotals& totals = engine.totals[initiator];
    totals.submitted += count;
    totals.completed += count;
    totals.bytes += kind.bytes;
    if (k >= measure.warmup_intervals) (void)truth_[engine.spec.key.step][initiator].Merge(histogram);
  }
  const bool last = k >= engine.last;
  if (!last) {
    queue_.At(engine.t0 + options_.clock_offset + (k + 2) * engine.spec.interval, [this, number] { Edge(number); });
  }
  Feed(agent::EngineInterval{.engine = number, .delta = std::move(delta)});
  if (last) End(number, false);
}

void LinkAgent::End(uint64_t number, bool aborted) {
  if (dead_ || !engine_ || engine_->number != number || engine_->ended) return;
  Engine& engine = *engine_;
  engine.running = false;
  engine.ended = true;
  PhaseTotals totals;
  totals.last_interval = engine.next - 1;
  for (uint32_t initiator : engine.spec.initiators) {
    InitiatorTotals& out = totals.initiators.emplace_back();
    out.initiator = initiator;
    out.kinds[0] = engine.totals[initiator];
  }
  IntervalDelta drain{.interval = engine.next, .drain = true};
  for (uint32_t initiator : engine.spec.initiators) drain.initiators.emplace_back().initiator = initiator;
  if (!aborted || engine.next > 0) Feed(agent::EngineInterval{.engine = number, .delta = std::move(drain)});
  Feed(agent::EngineEnded{.engine = number, .totals = std::move(totals)});
}

}  // namespace muster::sim
