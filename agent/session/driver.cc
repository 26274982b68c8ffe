#include "agent/session/driver.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "agent/session/driver_work.h"
#include "common/base/logging.h"
#include "common/base/status.h"

namespace muster::agent {
namespace {

// Messages and interval deltas: a stall of the session thread of 25 s at the shortest interval is bridged.
constexpr size_t kInboxEvents = 256;
constexpr size_t kInboxAcks = 2 * 64;  // twice the window of reports
constexpr size_t kInboxKept = 64;

class Driver final : public SessionDriver, private LinkListener {
 public:
  Driver(DriverOptions options, const Clock& clock, DriverSeams seams)
      : options_(std::move(options)),
        seams_(std::move(seams)),
        clock_(clock),
        machine_(options_.session),
        work_(options_, seams_, clock_, fleet_, lease_, inbox_) {}

  LinkListener& link_listener() override { return *this; }

  Result Run(ControllerLink& link) override {
    link_ = &link;
    while (!result_) {
      const Nanos wait = std::clamp<Nanos>(machine_.NextDeadline() - clock_.Now(), 0, kSecond);
      auto event = inbox_.Pop(wait);
      for (const Action& action : machine_.Step(event ? *std::move(event) : Event(Tick{}), clock_.Now())) {
        std::visit([this](const auto& a) { Do(a); }, action);
      }
    }
    return *result_;
  }

  void Shutdown(const std::string& why) override { inbox_.PushKept(ShutdownAsked{why}); }

 private:
  // ---- LinkListener. What cannot be queued breaks the link: the next one brings it again.
  void OnMessage(uint64_t link, uint64_t seq, ControllerSays message, Nanos received) override {
    if (!inbox_.Push(MessageArrived{.link = link, .message = std::move(message), .received = received, .seq = seq}))
      Flooded(link);
  }
  void OnBadMessage(uint64_t link, uint64_t seq, PhaseKey key, absl::Status status) override {
    if (!inbox_.Push(BadMessage{.link = link, .seq = seq, .key = std::move(key), .status = std::move(status)}))
      Flooded(link);
  }
  void OnAck(uint64_t link, uint64_t committed, absl::Status error) override {
    if (!inbox_.PushAnswer(AckArrived{.link = link, .committed = committed, .error = std::move(error)})) Flooded(link);
  }
  void OnLost(uint64_t link, absl::Status why) override {
    inbox_.PushKept(LinkLost{.link = link, .why = std::move(why)});
  }
  // Once a link: a flood must not fill the places of what has to be kept.
  void Flooded(uint64_t link) {
    if (flooded_link_.exchange(link) == link) return;
    inbox_.PushKept(LinkLost{.link = link,
                             .why = MakeError(absl::StatusCode::kResourceExhausted,
                                              {.code = "LINK_FLOODED",
                                               .place = "controller",
                                               .message = "messages came faster than the session could take them",
                                               .next = ""})});
  }

  // ---- Actions
  void Do(const Dial& a) {
    link_number_ = a.link;
    link_->Dial(a.link, a.hello);
  }
  void Do(const OpenReports& a) { link_->OpenReports(a.link_id); }
  void Do(const CloseLink&) { link_->Close(); }
  void Do(const Say& a) {
    if (!link_->Say(a.seq, a.message)) Flooded(link_number_);
  }
  void Do(const SendReport& a) {
    if (!link_->Report(a.report)) Flooded(link_number_);
  }
  void Do(const EngineStart& a) {
    if (Engine* engine = work_.engine()) engine->Start(a.t0_fleet);
  }
  void Do(const EngineStopAfter& a) {
    if (Engine* engine = work_.engine()) engine->StopAfter(a.interval);
  }
  void Do(const EngineAbort&) {
    if (Engine* engine = work_.engine()) engine->Abort();
  }
  void Do(const SetLease& a) { lease_.store(a.end, std::memory_order_relaxed); }
  void Do(const SetClock& a) {
    fleet_.Set({.offset = a.estimate.offset, .error = a.estimate.error, .taken = a.estimate.taken});
  }
  void Do(const Note& a) {
    if (a.level >= GetLogLevel()) LogText(a.level, a.text);
  }
  void Do(const Exit& a) { result_ = Result{.exit_code = a.code, .clean = a.clean}; }
  template <typename Job>
  void Do(const Job& job) {
    work_.Post(job);
  }

  const DriverOptions options_;
  const DriverSeams seams_;
  const Clock& clock_;
  FleetTime fleet_;
  LeaseEnd lease_{0};
  Inbox<Event> inbox_{kInboxEvents, kInboxAcks, kInboxKept};
  SessionMachine machine_;
  WorkThread work_;
  ControllerLink* link_ = nullptr;
  uint64_t link_number_ = 0;
  std::atomic<uint64_t> flooded_link_{0};  // links count from 1
  std::optional<Result> result_;
};

}  // namespace

DriverSeams DriverSeams::Real() {
  return {
      .attach = muster::Attach, .inspect = muster::Inspect, .probe = muster::ProbeTarget, .prepare = Engine::Prepare};
}

std::unique_ptr<SessionDriver> SessionDriver::Create(DriverOptions options, const Clock& clock, DriverSeams seams) {
  return std::make_unique<Driver>(std::move(options), clock, std::move(seams));
}

}  // namespace muster::agent
