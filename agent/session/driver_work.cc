#include "agent/session/driver_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/thread.h"

namespace muster::agent {

void EngineRelay::OnFirstIo(Nanos first_io_local, Nanos wake_lateness) {
  inbox_.PushKept(EngineFirstIo{.engine = engine_, .local = first_io_local, .wake_lateness = wake_lateness});
}

void EngineRelay::OnInterval(IntervalDelta delta) {
  if (overrun_ || inbox_.Push(EngineInterval{.engine = engine_, .delta = std::move(delta)})) return;
  overrun_ = true;
  inbox_.PushKept(EngineOverrun{.engine = engine_});
}

void EngineRelay::OnHeld(HeldHistograms held) {
  if (overrun_ || inbox_.Push(EngineHeld{.engine = engine_, .held = std::move(held)})) return;
  overrun_ = true;
  inbox_.PushKept(EngineOverrun{.engine = engine_});
}

void EngineRelay::OnProgress(uint64_t bytes_done, uint64_t bytes_total) {
  // The next one says more: losing one loses nothing.
  inbox_.Push(EngineProgress{.engine = engine_, .bytes_done = bytes_done, .bytes_total = bytes_total});
}

void EngineRelay::OnEnded(PhaseTotals totals, absl::Status status) {
  inbox_.PushKept(EngineEnded{.engine = engine_, .totals = std::move(totals), .status = std::move(status)});
}

WorkThread::WorkThread(const DriverOptions& options, const DriverSeams& seams, const Clock& clock,
                       const FleetTime& fleet, const LeaseEnd& lease, Inbox<Event>& inbox)
    : options_(options), seams_(seams), clock_(clock), fleet_(fleet), lease_(lease), inbox_(inbox) {
  thread_ = std::thread([this] {
    SetThreadName("work");
    Loop();
  });
}

WorkThread::~WorkThread() {
  jobs_.Close();
  thread_.join();
}

bool WorkThread::Post(Action job) {
  return jobs_.TryPush(std::move(job));
}

void WorkThread::Loop() {
  while (true) {
    auto job = jobs_.Pop(kSecond);
    if (job) {
      std::visit([this](const auto& j) { Do(j); }, *job);
    } else if (jobs_.closed()) {
      return;
    }
  }
}

void WorkThread::Answer(Event event) {
  inbox_.PushKept(std::move(event));
}

void WorkThread::Do(const DoAttach& job) {
  auto attached = seams_.attach(job.request, options_.allow);
  if (!attached.ok()) return Answer(AttachFinished{.status = attached.status()});
  AttachFinished done{.status = {}, .generation = (*attached)->generation(), .evidence = (*attached)->Evidence()};
  targets_[job.request.target.name] = {.target = job.request.target, .handle = *std::move(attached)};
  Answer(std::move(done));
}

void WorkThread::Do(const DoInspect& job) {
  InspectFinished done;
  for (const InspectItem& item : job.items) {
    const auto& look = item.probe ? seams_.probe : seams_.inspect;
    done.inspections.push_back(look(item.target, item.objects, item.writes, options_.allow));
  }
  Answer(std::move(done));
}

void WorkThread::Do(const DoDetach& job) {
  absl::Status first;
  for (auto it = targets_.begin(); it != targets_.end();) {
    if (!job.all && it->first != job.target) {
      ++it;
      continue;
    }
    absl::Status status = it->second.handle->Detach();
    if (first.ok() && !status.ok()) first = AtPlace(status, "target " + it->first);
    it = targets_.erase(it);
  }
  Answer(DetachFinished{.status = std::move(first)});
}

void WorkThread::Do(const DoPrepare& job) {
  const auto target = targets_.find(job.spec.target);
  if (target == targets_.end() || engine_ != nullptr) {
    return Answer(PrepareFinished{
        .status = MakeError(absl::StatusCode::kInternal, {.code = "SESSION_FAULT",
                                                          .place = "target " + job.spec.target,
                                                          .message = "it is not attached, or an engine is still there",
                                                          .next = "Report this."})});
  }
  auto relay = std::make_unique<EngineRelay>(job.engine, inbox_);
  const auto* measure = std::get_if<MeasureSpec>(&job.spec.work);
  const bool paced = measure != nullptr && measure->workload.pacing != Pacing::kClosed;
  const bool alone = options_.pin == PinMode::kAuto && paced && AloneOnHost();
  auto engine = seams_.prepare(job.spec, {.target = target->second.target, .objects = target->second.handle->objects()},
                               WithPinning(options_.engine, options_.pin, alone, paced), clock_, fleet_, lease_, *relay,
                               job.deadline);
  if (!engine.ok()) return Answer(PrepareFinished{.status = engine.status()});
  PrepareFinished done{.status = {}, .memory_bytes = (*engine)->MemoryBytes(), .facts = {}};
  // The number of facts that travel is bounded: what a reader must not miss comes first.
  auto evidence = target->second.handle->Evidence();
  const auto rest =
      std::stable_partition(evidence.begin(), evidence.end(), [](const auto& f) { return f.first == "note"; });
  done.facts.assign(evidence.begin(), rest);
  for (auto& fact : (*engine)->Describe()) done.facts.push_back(std::move(fact));
  done.facts.insert(done.facts.end(), rest, evidence.end());
  relay_ = std::move(relay);
  engine_ = *std::move(engine);
  Answer(std::move(done));
}

void WorkThread::Do(const DoRelease& job) {
  if (engine_ != nullptr && !engine_->Join(job.deadline)) return Answer(ReleaseFinished{.joined = false});
  engine_.reset();
  relay_.reset();
  Answer(ReleaseFinished{.joined = true});
}

}  // namespace muster::agent
