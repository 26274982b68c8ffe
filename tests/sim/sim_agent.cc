#include "tests/sim/sim_agent.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster::sim {
namespace {

absl::Status Broken(const char* code, const char* message) {
  return MakeError(absl::StatusCode::kInternal, {.code = code, .place = {}, .message = message, .next = {}});
}

}  // namespace

const char* FaultName(Fault fault) {
  static constexpr const char* kNames[] = {
      "none",         "vanishes",          "freezes",         "hangs in attach", "hangs in prepare", "hangs in start",
      "hangs in run", "hangs in drain",    "hangs in detach", "attach error",    "prepare error",    "run error",
      "ends early",   "misses start",      "always misses",   "duplicates",      "skips sequence",   "stale messages",
      "totals lie",   "corrupt histogram", "overloads",       "underfills"};
  static_assert(std::size(kNames) == static_cast<size_t>(Fault::kCount));
  return kNames[static_cast<size_t>(fault)];
}

SimAgent::SimAgent(Options options, uint64_t seed, SimQueue& queue, Emit emit)
    : options_(std::move(options)), rng_(seed), data_(MixSeed(seed, 1)), queue_(queue), emit_(std::move(emit)) {
  if (Is(Fault::kVanishes)) {
    queue_.At(options_.fault_at, [this] {
      if (!cut_) emit_(AgentGone{Broken("LINK_BROKEN", "the connection broke")});
      Cut();
    });
  }
}

void SimAgent::Cut() {
  cut_ = true;
}

void SimAgent::Deliver(const AgentCommand& command) {
  inbound_free_ = std::max(inbound_free_, queue_.now() + options_.latency + Delay(options_.latency));
  queue_.At(inbound_free_, [this, command] {
    if (!cut_ && !frozen()) Receive(command);
  });
}

void SimAgent::Say(AgentSays says, Nanos after) {
  control_free_ = std::max(control_free_, queue_.now() + after + options_.latency + Delay(options_.latency));
  queue_.At(control_free_, [this, says = std::move(says)] {
    if (!cut_ && !frozen()) emit_(says);
  });
}

void SimAgent::Report(const PhaseKey& key, std::variant<IntervalDelta, HeldHistograms, PhaseEnded> body) {
  ++sequence_;
  if (Is(Fault::kSkipsSequence) && queue_.now() >= options_.fault_at) ++sequence_;
  if (auto* ended = std::get_if<PhaseEnded>(&body)) {
    ended->totals.last_sequence = sequence_;
    ended_[key] = sequence_;
  }
  AgentReport report{.key = key, .sequence = sequence_, .body = std::move(body), .bytes = "raw"};
  const int copies = Is(Fault::kDuplicates) && rng_.Below(3) == 0 ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    report_free_ = std::max(report_free_, queue_.now() + options_.latency + Delay(options_.latency));
    queue_.At(report_free_, [this, report] {
      if (!cut_ && !frozen()) emit_(report);
    });
  }
}

PhaseKey SimAgent::Strange(const PhaseKey& key) {
  PhaseKey strange = key;
  if (rng_.Below(2) == 0) strange.run = "another-run";
  if (rng_.Below(2) == 0) strange.step += 7;
  strange.attempt += 1 + static_cast<uint32_t>(rng_.Below(3));
  return strange;
}

void SimAgent::Receive(const AgentCommand& command) {
  std::visit([this](const auto& c) { On(c); }, command);
}

void SimAgent::On(const AttachCommand& command) {
  if (Is(Fault::kHangsInAttach)) return;
  AttachDone done{.key = command.key, .target = command.target.name, .generation = 7, .evidence = {{"found", "blank"}}};
  if (Is(Fault::kAttachError)) done.status = Broken("TARGET_MOUNTED", "the device is mounted");
  if (!command.guard && !std::holds_alternative<NullTarget>(command.target.kind) && command.generation != 7) {
    done.status = Broken("GENERATION", "not the guard's generation");
  }
  if (Is(Fault::kStaleMessages)) Say(AttachDone{.key = Strange(command.key), .target = "x"});
  Say(std::move(done), Delay(300 * kMillisecond));
}

void SimAgent::On(const PrepareCommand& command) {
  const PhaseKey& key = command.spec.key;
  if (active_ && !active_->over) {
    Say(Refused{key, Broken("BUSY", "another phase is active")});
    return;
  }
  active_.emplace();
  ++serial_;
  active_->spec = command.spec;
  truth_.erase(key.phase == PhaseKind::kMeasure ? key.step : UINT32_MAX);  // an earlier attempt does not count
  if (const auto* fill = std::get_if<FillSpec>(&command.spec.work)) {
    for (const FillExtent& extent : fill->extents) active_->fill_total += extent.length * fill->passes;
  }
  if (Is(Fault::kHangsInPrepare)) return;
  if (Is(Fault::kStaleMessages)) Say(PrepareDone{.key = Strange(key)});
  PrepareDone done{.key = key, .memory_bytes = 1 << 20, .facts = {{"workers", "1"}}};
  if (Is(Fault::kPrepareError)) {
    done.status = Broken("BUFFER_MEMORY", "does not fit");
    active_->over = true;
  }
  active_->prepared = done.status.ok();
  Say(std::move(done), Delay(200 * kMillisecond));
}

void SimAgent::On(const StartCommand& command) {
  if (!active_ || active_->over || active_->spec.key != command.key || !active_->prepared) {
    Say(Refused{command.key, Broken("NOT_PREPARED", "no such phase")});
    return;
  }
  if (Is(Fault::kHangsInStart)) return;
  const Nanos wrong = Delay(2 * options_.clock_error) - options_.clock_error;
  StartDone done{.key = command.key, .offset = options_.clock_offset + wrong, .error = options_.clock_error};
  done.local_t0 = command.t0_fleet - done.offset;
  const bool late = queue_.now() > command.t0_fleet;
  const bool faulty = Is(Fault::kAlwaysMisses) || (Is(Fault::kMissesStart) && misses_ == 0);
  if (late || faulty) {
    ++misses_;
    done.missed = true;
    Say(std::move(done));
    return;
  }
  active_->armed = true;
  active_->t0 = done.local_t0 + options_.clock_offset;  // true fleet time at which it begins
  starts_[command.key] = active_->t0;
  if (const auto* measure = std::get_if<MeasureSpec>(&active_->spec.work)) {
    active_->last = int64_t{measure->warmup_intervals} + measure->window_intervals - 1;
    active_->bound = std::make_unique<ReportBound>(options_.report_bound, measure->warmup_intervals);
  } else {
    active_->last = 1'000'000;
  }
  Say(std::move(done));
  const uint64_t serial = serial_;
  queue_.At(active_->t0 + 100, [this, serial, key = command.key, at = active_->t0 + 100] {
    if (serial == serial_ && active_ && !active_->over) {
      Say(FirstIo{.key = key, .local = at - options_.clock_offset, .fleet = at, .wake_lateness = 50});
    }
  });
  queue_.At(active_->t0 + active_->spec.interval, [this, serial] { Edge(serial); });
}

void SimAgent::Edge(uint64_t serial) {
  if (cut_ || frozen() || serial != serial_ || !active_ || active_->over) return;
  ActivePhase& a = *active_;
  const int64_t k = a.next++;
  if (Is(Fault::kHangsInRun) && k >= 1) return;
  const bool faulty_now = queue_.now() >= options_.fault_at;
  if (a.is_fill()) {
    const uint64_t step = std::max<uint64_t>(a.fill_total / 3, 1);
    const uint64_t part = std::min(step, a.fill_total - a.fill_done);
    a.fill_done += part;
    KindTotals& totals = a.totals[0];
    totals.submitted += 1;
    totals.completed += 1;
    totals.bytes += part;
    Say(FillReport{.key = a.spec.key, .bytes_done = a.fill_done, .bytes_total = a.fill_total});
    if (a.fill_done >= a.fill_total) a.last = k;
    if (Is(Fault::kUnderfills) && k == 1) a.last = k;
  } else {
    ReportInterval(MakeDelta(k, false));
  }
  if (Is(Fault::kStaleMessages)) {
    Say(FillReport{.key = Strange(a.spec.key), .bytes_done = 1, .bytes_total = 2});
    if (rng_.Below(4) == 0) Report(Strange(a.spec.key), IntervalDelta{.interval = k});
  }
  if (Is(Fault::kRunError) && faulty_now) {
    End(Broken("WRITE_FAILED", "no space left"));
  } else if (Is(Fault::kEndsEarly) && faulty_now && k < a.last) {
    End(absl::OkStatus());
  } else if (Is(Fault::kOverloads) && faulty_now && !a.is_fill() && k < a.last) {
    End(absl::OkStatus(), /*overloaded=*/true);
  } else if (k >= a.last) {
    if (!a.is_fill()) ReportInterval(MakeDelta(k + 1, true));
    End(absl::OkStatus());
  } else {
    queue_.At(a.t0 + (k + 2) * a.spec.interval, [this, serial] { Edge(serial); });
  }
}

void SimAgent::ReportInterval(IntervalDelta delta) {
  std::vector<HeldHistograms> due;
  (void)active_->bound->Apply(delta, due);  // what could not be merged is missing, which sums find
  for (HeldHistograms& held : due) Report(active_->spec.key, std::move(held));
  Report(active_->spec.key, std::move(delta));
}

IntervalDelta SimAgent::MakeDelta(int64_t interval, bool drain) {
  ActivePhase& a = *active_;
  const auto& measure = std::get<MeasureSpec>(a.spec.work);
  IntervalDelta delta{.interval = interval, .drain = drain, .length = drain ? 0 : a.spec.interval, .cpu_nanos = 1000};
  const bool in_window = !drain && interval >= measure.warmup_intervals &&
                         interval < int64_t{measure.warmup_intervals} + measure.window_intervals;
  Truth& truth = truth_[a.spec.key.step];
  for (uint32_t initiator : a.spec.initiators) {
    InitiatorDelta& out = delta.initiators.emplace_back();
    out.initiator = initiator;
    out.offered_integral = static_cast<Uint128>(a.spec.interval) * 2;
    out.wire_integral = out.offered_integral;
    Histogram histogram;
    // Initiator 0, which every step has, is never idle: a window without any operation is rightly not VALID.
    const uint64_t count = drain ? data_.Below(3) : data_.Below(40) + (initiator == 0 ? 1 : 0);
    for (uint64_t i = 0; i < count; ++i) histogram.Record(1 + data_.Below(uint64_t{1} << (1 + data_.Below(40))));
    KindDelta& kind = out.kinds.emplace_back();
    kind.completed = count;
    kind.bytes = count * measure.workload.block;
    kind.response = histogram.Encode();
    if (Is(Fault::kCorruptHistogram) && queue_.now() >= options_.fault_at && count > 0) kind.response.counts += "\x02";
    KindTotals& totals = a.totals[initiator];
    totals.submitted += count;
    totals.completed += count;
    totals.bytes += kind.bytes;
    if (in_window) {
      (void)truth.window[initiator].Merge(histogram);
      truth.bytes += kind.bytes;
    }
  }
  return delta;
}

void SimAgent::End(absl::Status status, bool overloaded) {
  ActivePhase& a = *active_;
  a.over = true;
  if (Is(Fault::kHangsInDrain)) return;
  if (a.bound != nullptr) {
    for (HeldHistograms& held : a.bound->Flush()) Report(a.spec.key, std::move(held));
  }
  PhaseEnded ended{.status = std::move(status)};
  ended.offset_at_start = ended.offset_at_end = options_.clock_offset;
  ended.error_at_start = ended.error_at_end = options_.clock_error;
  ended.totals.last_interval = a.next - 1;
  ended.totals.overloaded = overloaded;
  for (const auto& [initiator, totals] : a.totals) {
    InitiatorTotals& out = ended.totals.initiators.emplace_back();
    out.initiator = initiator;
    out.kinds[static_cast<size_t>(a.is_fill() ? OpKind::kWrite : OpKind::kRead)] = totals;
  }
  if (Is(Fault::kTotalsLie) && !a.is_fill() && !ended.totals.initiators.empty()) {
    KindTotals& lie = ended.totals.initiators[0].kinds[0];
    ++lie.completed;
    ++lie.submitted;
  }
  Report(a.spec.key, std::move(ended));
}

void SimAgent::On(const StopCommand& command) {
  if (!active_ || active_->over || active_->spec.key != command.key) {
    Say(Refused{command.key, Broken("NO_SUCH_PHASE", "nothing to stop")});
    return;
  }
  if (!active_->armed || command.now) {
    End(absl::OkStatus());
    return;
  }
  active_->last = std::min(active_->last, std::max(command.after_interval, active_->next));
}

void SimAgent::On(const DetachCommand& command) {
  if (Is(Fault::kHangsInDetach)) return;
  Say(DetachDone{command.key, absl::OkStatus()}, Delay(100 * kMillisecond));
}

}  // namespace muster::sim
