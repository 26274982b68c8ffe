#include "tests/sim/link_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "controller/verdict/verdict.h"

namespace muster::sim {
namespace {

constexpr uint64_t kEpoch = 77;
constexpr Nanos kBound = 20 * kMinute;

struct ToController {
  AgentSays operator()(const agent::AttachDone& m) const {
    return AttachDone{m.key, m.target, m.status, m.generation, m.evidence};
  }
  AgentSays operator()(const agent::PrepareDone& m) const {
    return PrepareDone{m.key, m.status, m.memory_bytes, m.facts};
  }
  AgentSays operator()(const agent::StartDone& m) const {
    return StartDone{m.key, m.missed, m.offset, m.error, m.local_t0};
  }
  AgentSays operator()(const agent::FirstIo& m) const { return FirstIo{m.key, m.local, m.fleet, m.wake_lateness}; }
  AgentSays operator()(const agent::Progress& m) const { return FillReport{m.key, m.bytes_done, m.bytes_total}; }
  AgentSays operator()(const agent::DetachDone& m) const { return DetachDone{m.key, m.status}; }
  AgentSays operator()(const agent::Refused& m) const { return Refused{m.key, m.status}; }
  AgentSays operator()(const agent::InspectDone& m) const { return InspectDone{.request = m.request}; }
  AgentSays operator()(const agent::Beat&) const { return {}; }
  AgentSays operator()(const agent::Leaving&) const { return {}; }
};

struct ToAgent {
  agent::ControllerSays operator()(const AttachCommand& m) const {
    agent::Attach out{.key = m.key, .request = {}, .allowed = m.deadline};
    out.request.run = m.key.run;
    out.request.target = m.target;
    return out;
  }
  agent::ControllerSays operator()(const PrepareCommand& m) const { return agent::Prepare{m.spec, m.deadline}; }
  agent::ControllerSays operator()(const StartCommand& m) const { return agent::Start{m.key, m.t0_fleet}; }
  agent::ControllerSays operator()(const StopCommand& m) const { return agent::Stop{m.key, m.now, m.after_interval}; }
  agent::ControllerSays operator()(const DetachCommand& m) const { return agent::Detach{m.key, m.all, m.target}; }
  agent::ControllerSays operator()(const InspectCommand& m) const { return agent::Inspect{m.request, {}}; }
};

HelloInfo HelloOf(const agent::Hello& hello) {
  HelloInfo out{.api_min = hello.api_min,
                .api_max = hello.api_max,
                .build = hello.build,
                .agent_id = hello.agent_id,
                .instance = hello.instance,
                .host_id = hello.host_id,
                .boot_id = hello.boot_id,
                .hostname = hello.hostname};
  if (hello.holds) {
    out.last_sequence = hello.held.last_sequence;
    out.held_epoch = hello.held.controller_epoch;
    out.held_live = hello.held.live;
    out.held_heard = hello.held.heard;
  }
  return out;
}

AgentReport ReportOf(const agent::Report& report) {
  AgentReport out{.key = report.key, .sequence = report.sequence, .body = {}, .bytes = "raw"};
  if (const auto* delta = std::get_if<IntervalDelta>(&report.body)) out.body = *delta;
  if (const auto* held = std::get_if<HeldHistograms>(&report.body)) out.body = *held;
  if (const auto* ended = std::get_if<agent::PhaseEnded>(&report.body)) {
    out.body = PhaseEnded{ended->totals,         ended->status,        ended->offset_at_start,
                          ended->error_at_start, ended->offset_at_end, ended->error_at_end};
  }
  return out;
}

absl::Status Unavailable(const char* code) {
  return MakeError(absl::StatusCode::kUnavailable, {.code = code, .place = "the net", .message = code, .next = {}});
}

}  // namespace

LinkWorld::LinkWorld(LinkScenario scenario, bool trace)
    : scenario_(std::move(scenario)),
      trace_(trace),
      rng_(MixSeed(scenario_.seed, 9)),
      fleet_({.api_min = 3,
              .api_max = 3,
              .build = "controller",
              .lease = scenario_.lease,
              .boot_id = "boot",
              .epoch = kEpoch}) {
  for (const LinkScenario::Agent& plan : scenario_.agents) {
    Peer& peer = peers_[plan.options.id];
    peer.plan = &plan;
    Boot(peer);
  }
}

void LinkWorld::Boot(Peer& peer) {
  LinkAgent::Options options = peer.plan->options;
  options.instance += 100 * peer.processes.size();
  LinkAgent::Out out;
  out.dial = [this, &peer](uint64_t number, const agent::Hello& hello) {
    auto conn = std::make_shared<Conn>();
    conn->number = number;
    peer.conn = conn;
    if (queue_.now() < peer.down_until) {
      conn->cut = conn->over_at_controller = true;
      queue_.In(kMillisecond, [this, &peer, conn] {
        if (std::exchange(conn->over_at_agent, true)) return;
        peer.agent().Feed(agent::LinkLost{.link = conn->number, .why = Unavailable("CONNECTION_REFUSED")});
      });
      return;
    }
    Send(peer, conn, kSays, [this, &peer, conn, hello] { OnHello(peer, conn, hello); });
  };
  out.close = [this, &peer] {
    if (peer.conn == nullptr) return;
    peer.conn->over_at_agent = true;
    // What was said before still arrives, then the end does.
    Send(peer, peer.conn, kSays, [this, &peer, conn = peer.conn] { Down(peer, conn); });
  };
  out.say = [this, &peer](agent::Say say) {
    Send(peer, peer.conn, kSays, [this, &peer, conn = peer.conn, say = std::move(say)] { OnSay(peer, conn, say); });
  };
  out.report = [this, &peer](std::shared_ptr<const agent::Report> report) {
    Send(peer, peer.conn, kReports, [this, &peer, conn = peer.conn, report] { OnReport(peer, conn, *report); });
  };
  out.broken = [this](std::string text) { Broken(std::move(text)); };
  out.note = [this](const std::string& text) { Note(text); };
  peer.processes.push_back(
      std::make_unique<LinkAgent>(options, MixSeed(scenario_.seed, 3, options.instance), queue_, std::move(out)));
  queue_.In(kMillisecond, [agent = peer.processes.back().get()] { agent->Feed(agent::Tick{}); });
}

void LinkWorld::Send(Peer& peer, const std::shared_ptr<Conn>& conn, Flow flow, std::function<void()> deliver) {
  if (machine_ != nullptr) {
    ++peer.messages;
    if (peer.messages == peer.plan->restart_at) {
      Note(peer.plan->options.id + ": its process is killed");
      peer.agent().Kill();
      Cut(peer, conn, {.outage = 0});
      queue_.In(peer.plan->restart_after, [this, &peer] { Boot(peer); });
      return;
    }
    if (peer.next_cut < peer.plan->cuts.size() && peer.messages >= peer.plan->cuts[peer.next_cut].message) {
      Cut(peer, conn, peer.plan->cuts[peer.next_cut++]);
    }
  }
  const Nanos way = peer.plan->latency + static_cast<Nanos>(rng_.Below(static_cast<uint64_t>(peer.plan->latency)));
  Nanos& free = conn->free[flow];
  free = std::max(free, queue_.now() + way);
  const bool sent_after = conn->cut;
  queue_.At(free, [this, conn, flow, sent_after, deliver = std::move(deliver)] {
    if (conn->cut) {
      // A flow is lost from some message on; the late ones come when nobody waits for them any more.
      if (sent_after || !conn->late || conn->lossy[flow] || rng_.Below(3) == 0) conn->lossy[flow] = true;
      if (conn->lossy[flow]) return;
    }
    deliver();
  });
}

void LinkWorld::Cut(Peer& peer, const std::shared_ptr<Conn>& conn, const CutAt& cut) {
  if (conn->cut) return;
  Note(fmt::format("{}: connection {} is cut for {}{}{}", peer.plan->options.id, conn->number,
                   FormatLatency(static_cast<double>(cut.outage)), cut.mute ? ", mute" : "", cut.late ? ", late" : ""));
  conn->cut = true;
  conn->late = cut.late;
  if (cut.late) {
    for (Nanos& free : conn->free) free = std::max(free, queue_.now() + static_cast<Nanos>(rng_.Below(3)) * kSecond);
  }
  peer.down_until = queue_.now() + cut.outage;
  if (cut.mute) return;
  queue_.In(static_cast<Nanos>(rng_.Below(300)) * kMillisecond, [&peer, conn] {
    if (std::exchange(conn->over_at_agent, true)) return;
    peer.agent().Feed(agent::LinkLost{.link = conn->number, .why = Unavailable("CONNECTION_RESET")});
  });
  queue_.In(static_cast<Nanos>(rng_.Below(3'000)) * kMillisecond, [this, &peer, conn] { Down(peer, conn); });
}

void LinkWorld::Say(Peer& peer, const std::shared_ptr<Conn>& conn, uint64_t seq, agent::ControllerSays message) {
  Send(peer, conn, kCommands, [&peer, conn, seq, message = std::move(message)] {
    peer.agent().Feed(
        agent::MessageArrived{.link = conn->number, .message = message, .received = peer.agent().now(), .seq = seq});
  });
}

void LinkWorld::OnHello(Peer& peer, const std::shared_ptr<Conn>& conn, const agent::Hello& hello) {
  if (conn->over_at_controller) return;
  agent::HelloReply reply{.error = {}, .api = 3, .build = "controller", .controller_epoch = kEpoch};
  const uint64_t link = ++links_;
  auto admitted = fleet_.Admit(HelloOf(hello), link, queue_.now(), machine_ != nullptr);
  if (!admitted.ok()) {
    ++refused;
    Note(hello.agent_id + " is refused: " + FormatError(admitted.status()));
    reply.error = admitted.status();
    return Say(peer, conn, 0, reply);
  }
  const Welcome& welcome = *admitted;
  if (welcome.ended) Gone(peer, *welcome.ended);
  if (peer.accepted != nullptr) peer.accepted->over_at_controller = true;
  peer.accepted = conn;
  conn->link = link;
  reply.link_id = link;
  reply.lease = scenario_.lease;
  reply.last_committed = welcome.member.committed;
  reply.last_received = welcome.member.last_sequence;
  reply.resumed = welcome.resumed;
  reply.wants_reports = welcome.wants_reports;
  reply.heard = welcome.heard;
  if (!welcome.resumed) peer.heard = 0;
  Say(peer, conn, 0, reply);
  for (const auto& command : welcome.again) Say(peer, conn, command.seq, std::visit(ToAgent{}, command.message));
  resent += welcome.again.size();
  if (welcome.wants_reports) {
    ++returned;
    Feed(AgentEvent{hello.agent_id, AgentReturned{welcome.reports}, nullptr});
  }
  if (welcome.resumed) {
    ++reconnects;
    Feed(AgentEvent{hello.agent_id, LinkBack{welcome.down, welcome.reports}, nullptr});
  }
}

void LinkWorld::OnSay(Peer& peer, const std::shared_ptr<Conn>& conn, const agent::Say& say) {
  const std::string& id = peer.plan->options.id;
  if (conn->over_at_controller || conn->link == 0) return;
  if (const auto* beat = std::get_if<agent::Beat>(&say.message)) {
    const Member* member = fleet_.Find(id);
    if (member == nullptr || member->link_id != conn->link) return;
    if (!fleet_.Acknowledge(id, conn->link, beat->heard).ok()) Broken(id + " acknowledged what was never said");
    fleet_.OnBeat(id, conn->link,
                  {.seq = beat->seq,
                   .t1 = beat->t1,
                   .previous_seq = beat->previous_seq,
                   .previous_t4 = beat->previous_t4,
                   .offset = beat->offset,
                   .error = beat->error,
                   .round_trip = beat->round_trip},
                  queue_.now(), queue_.now());
    member = fleet_.Find(id);
    Say(peer, conn, 0,
        agent::BeatReply{.seq = beat->seq,
                         .t1 = beat->t1,
                         .t2 = queue_.now(),
                         .t3 = queue_.now(),
                         .heard = fleet_.HeardOf(id),
                         .committed = member->committed});
    return Feed(AgentEvent{id, ClockNews{member->clock}, nullptr});
  }
  if (std::holds_alternative<agent::Leaving>(say.message)) {
    if (fleet_.Remove(id, conn->link)) Gone(peer, Unavailable("AGENT_LEFT"));
    return;
  }
  const auto fresh = fleet_.Hear(id, conn->link, say.seq);
  if (!fresh.ok()) {
    if (GetErrorInfo(fresh.status()).code == "CONTROL_GAP") Broken(id + ": " + FormatError(fresh.status()));
    return;
  }
  if (!*fresh) {
    ++duplicates;
    return;
  }
  if (say.seq != peer.heard + 1) Broken(fmt::format("{}: message {} handed on after {}", id, say.seq, peer.heard));
  peer.heard = say.seq;
  if (const auto* bad = std::get_if<agent::Refused>(&say.message); bad != nullptr && scenario_.Gentle()) {
    Broken(id + " refused a command: " + FormatError(bad->status));
  }
  Feed(AgentEvent{id, std::visit(ToController{}, say.message), nullptr});
}

void LinkWorld::OnReport(Peer& peer, const std::shared_ptr<Conn>& conn, const agent::Report& report) {
  const std::string& id = peer.plan->options.id;
  if (conn->over_at_controller || !fleet_.OnReport(id, conn->link, report.sequence)) return;
  if (machine_ != nullptr) return Feed(AgentEvent{id, ReportOf(report), nullptr});
}

void LinkWorld::Down(Peer& peer, const std::shared_ptr<Conn>& conn) {
  if (std::exchange(conn->over_at_controller, true) || conn->link == 0) return;
  if (fleet_.LinkDown(peer.plan->options.id, conn->link, queue_.now())) {
    Feed(AgentEvent{peer.plan->options.id, LinkDown{Unavailable("LINK_BROKEN")}, nullptr});
  }
}

// The controller takes the agent for lost. That its lease has ended must be true where the load is made, too.
void LinkWorld::Gone(Peer& peer, const absl::Status& why) {
  ++lost;
  if (GetErrorInfo(why).code == "LEASE_ENDED") {
    for (const auto& process : peer.processes) {
      if (process->loading() && process->load_ends_by() > queue_.now()) {
        Broken(peer.plan->options.id + " may still submit although its lease has ended for the controller");
      }
    }
  }
  if (peer.accepted != nullptr) {
    peer.accepted->over_at_controller = true;
    // The end of the stream travels as everything else does.
    Send(peer, peer.accepted, kCommands, [&peer, conn = peer.accepted] {
      if (std::exchange(conn->over_at_agent, true)) return;
      peer.agent().Feed(agent::LinkLost{.link = conn->number, .why = Unavailable("LINK_ENDED")});
    });
  }
  Feed(AgentEvent{peer.plan->options.id, AgentGone{why}, nullptr});
}

void LinkWorld::Leases() {
  for (const std::string& id : fleet_.Expired(queue_.now())) {
    fleet_.Remove(id, fleet_.Find(id)->link_id);
    Gone(peers_[id], Unavailable("LEASE_ENDED"));
  }
  queue_.In(100 * kMillisecond, [this] { Leases(); });
}

void LinkWorld::Run() {
  while (queue_.now() < 1'003 * kSecond) queue_.RunOne();
  began_ = queue_.now();
  std::vector<FleetAgent> members;
  for (const Member& member : fleet_.Members()) {
    members.push_back({.id = member.hello.agent_id,
                       .host_id = member.hello.host_id,
                       .hostname = member.hello.hostname,
                       .last_sequence = member.last_sequence,
                       .clock = member.clock});
  }
  if (members.size() != peers_.size()) return Broken("not everybody was accepted");
  RunMachineOptions options;
  options.run_id = "links";
  options.judge = [](const StepFigures& figures, Nanos op_timeout) { return Evaluate(figures, op_timeout); };
  machine_ = std::make_unique<RunMachine>(scenario_.plan, std::move(options), std::move(members));
  Leases();
  Feed(Tick{});
  while (!machine_->done() && broken_.empty()) {
    if (machine_->Deadline() <= queue_.Next()) {
      queue_.AdvanceTo(machine_->Deadline());
      Feed(Tick{});
    } else {
      queue_.RunOne();
    }
    if (queue_.now() - began_ > kBound) Broken("not done within its bound");
  }
  if (!broken_.empty()) return;
  if (results_.size() != scenario_.plan.steps.size()) Broken("a step without a result");
  if (scenario_.Gentle() && machine_->outcome() != "complete") {
    Broken("short outages alone, but: " + machine_->outcome() + " " + FormatError(machine_->error()));
  }
}

void LinkWorld::Feed(const RunEvent& event) {
  if (machine_ == nullptr || machine_->done()) return;
  for (const RunAction& action : machine_->Step(event, queue_.now())) Do(action);
}

void LinkWorld::Do(const RunAction& action) {
  const auto store = [&](auto answer) {
    store_free_ = std::max(store_free_, queue_.now()) + scenario_.store_latency;
    queue_.At(store_free_, [this, answer] { Feed(answer); });
  };
  if (const auto* send = std::get_if<SendAction>(&action)) {
    const auto seq = fleet_.Command(send->agent, send->command);
    Peer& peer = peers_[send->agent];
    if (seq.ok() && fleet_.Find(send->agent)->up() && peer.accepted != nullptr) {
      Say(peer, peer.accepted, *seq, std::visit(ToAgent{}, send->command));
    }
  } else if (const auto* ack = std::get_if<AcknowledgeAction>(&action)) {
    fleet_.OnCommitted(ack->agent, ack->sequence);
    Peer& peer = peers_[ack->agent];
    const Member* member = fleet_.Find(ack->agent);
    if (member == nullptr || !member->up()) return;
    Send(peer, peer.accepted, kAcks, [&peer, conn = peer.accepted, sequence = ack->sequence] {
      peer.agent().Feed(agent::AckArrived{.link = conn->number, .committed = sequence});
    });
  } else if (const auto* refuse = std::get_if<RefuseReportsAction>(&action)) {
    Broken("reports of " + refuse->agent + " were refused: " + FormatError(refuse->why));
  } else if (const auto* drop = std::get_if<DropAction>(&action)) {
    const Member* member = fleet_.Find(drop->agent);
    if (member != nullptr && fleet_.Remove(drop->agent, member->link_id)) {
      // Later: the machine is not to be called from within itself.
      queue_.In(0, [this, id = drop->agent, why = drop->why] { Gone(peers_[id], why); });
    }
  } else if (std::holds_alternative<CheckSpaceAction>(action)) {
    store(SpaceChecked{});
  } else if (const auto* commit = std::get_if<CommitReportAction>(&action)) {
    store(ReportsCommitted{commit->report.agent, commit->report.sequence});
  } else if (const auto* seal = std::get_if<SealStepAction>(&action)) {
    store(StepSealed{seal->key.step});
  } else if (std::holds_alternative<FinishAction>(action)) {
    store(StoreFinished{});
  } else if (const auto* result = std::get_if<StepResultAction>(&action)) {
    if (!results_.emplace(result->result->step.index, result->result).second) Broken("a step has two outcomes");
    CheckResult(*result->result);
  } else if (const auto* tell = std::get_if<TellAction>(&action)) {
    Note(tell->text);
    if (tell->text.find("it has been here") != std::string::npos) Broken("a report came twice: " + tell->text);
  }
}

void LinkWorld::CheckResult(const StepResult& result) {
  Note(fmt::format("step {} {} {}", result.step.index, StepOutcomeName(result.outcome), result.message));
  // A report that found no place is missing, which sums find and the error says.
  const bool lossy = result.message.find("REPORT_LOG_FULL") != std::string::npos;
  if (!lossy && !result.figures.sums_error.ok()) Broken("sums: " + FormatError(result.figures.sums_error));
  for (const LinkTotals& link : result.figures.links) coarse += link.coarse_deltas;
  if (result.outcome == StepOutcome::kSkipped || result.checks.empty()) return;
  const auto coverage = std::find_if(result.checks.begin(), result.checks.end(),
                                     [](const Check& check) { return check.name == "coverage"; });
  const bool whole = result.figures.lost_agents.empty() && result.figures.missing_count == 0;
  if (coverage == result.checks.end()) return Broken("a result without coverage");
  if (!result.figures.lost_agents.empty() && coverage->outcome == CheckOutcome::kPass) {
    Broken("coverage passes although an agent was lost");
  }
  if (result.outcome != StepOutcome::kValid) return;
  if (!whole || result.figures.intervals != result.step.measure.window_intervals) {
    Broken("VALID with something missing");
  }
  Histogram fleet;
  for (auto& [id, peer] : peers_) {
    for (const auto& process : peer.processes) {
      const auto truth = process->truth().find(result.step.index);
      if (truth == process->truth().end()) continue;
      for (const auto& [initiator, histogram] : truth->second) (void)fleet.Merge(histogram);
    }
  }
  if (!(result.figures.fleet.kinds[0].response == fleet)) {
    Broken(fmt::format("step {}: {} operations in the result, {} were measured", result.step.index,
                       result.figures.fleet.kinds[0].completed, fleet.count()));
  }
}

void LinkWorld::Note(const std::string& text) {
  if (trace_ || log_.size() < 200)
    log_.push_back(fmt::format("{:8.3f} {}", static_cast<double>(queue_.now()) / 1e9 - 1000, text));
}

}  // namespace muster::sim
