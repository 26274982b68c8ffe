#include "controller/service/api_service.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/wire/grpc_status.h"
#include "common/wire/rules.h"
#include "common/wire/text.h"
#include "controller/campaign/campaign.h"
#include "controller/fleet/receipts.h"
#include "controller/report/report.h"
#include "controller/service/api_streams.h"

namespace muster {
namespace {

absl::Status Busy(std::string what) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.code = "CONTROLLER_BUSY", .place = "controller", .message = std::move(what), .next = "Try again in a moment."});
}

absl::StatusOr<Submission> ReadSubmission(const v1::SubmitRunRequest& request) {
  const std::string file = request.campaign_file().empty() ? "campaign" : request.campaign_file();
  MUSTER_ASSIGN_OR_RETURN(const LoadedCampaign campaign, LoadCampaignText(file, request.campaign_text()));
  Submission out;
  MUSTER_ASSIGN_OR_RETURN(out.plan, Compile(campaign));
  out.match.insert(campaign.message.initiators().match().begin(), campaign.message.initiators().match().end());
  out.agents = request.agents();
  out.campaign_text = request.campaign_text();
  out.target_places = campaign.TargetPlaces();
  out.keep_raw = request.keep_raw();
  for (const v1::ResolvedSecret& secret : request.secrets()) {
    for (Target& target : out.plan.targets) {
      auto* iscsi = std::get_if<IscsiTarget>(&target.kind);
      if (iscsi == nullptr || target.name != secret.target()) continue;
      (secret.mutual() ? iscsi->mutual_secret : iscsi->secret).value = secret.value();
    }
  }
  for (const Target& target : out.plan.targets) {
    const auto* iscsi = std::get_if<IscsiTarget>(&target.kind);
    if (iscsi == nullptr) continue;
    for (const Secret* secret : {&iscsi->secret, &iscsi->mutual_secret}) {
      if (secret->reference.empty() || !secret->value.empty()) continue;
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.code = "SECRET_MISSING",
                        .place = "target " + target.name,
                        .message = "what " + secret->reference + " stands for was not sent",
                        .next = "The client resolves secrets; use a client of the controller's release."});
    }
  }
  return out;
}

// An agent takes a link over which nothing is answered for half a lease for a broken one: so does this. A host that is
// cut off cannot end its connection.
void SetLink(const Member& member, Nanos lease, Nanos now, v1::AgentState& state) {
  const Nanos quiet = std::max<Nanos>(0, now - (member.up() ? member.lease_end - lease : member.down_since));
  if (member.up() && quiet <= lease / 2) {
    state.set_link("up");
    return;
  }
  state.set_link(member.up() ? "silent" : "down");
  state.set_link_quiet_ns(quiet);
}

v1::AgentState StateOf(const Member& member, std::string run, Nanos lease, Nanos now) {
  const HelloInfo& hello = member.hello;
  v1::AgentState state;
  state.set_id(WireText(hello.agent_id, 64));
  state.set_hostname(WireText(hello.hostname, 256));
  state.set_run(std::move(run));
  SetLink(member, lease, now, state);
  state.set_lease_left_ns(member.lease_end - now);
  state.set_clock_known(member.clock.error < kNever);
  if (state.clock_known()) {
    state.set_offset_ns(member.clock.offset);
    state.set_error_ns(member.clock.error);
  }
  state.set_build(WireText(hello.build, 128));
  for (const auto& [name, value] : hello.labels) {
    v1::Fact& label = *state.add_labels();
    label.set_name(name);
    label.set_value(value);
  }
  for (const std::string& capability : hello.capabilities) state.add_capabilities(WireText(capability, 64));
  return state;
}

}  // namespace

ControllerApiService::ControllerApiService(LinkHub& hub, RunBook& book, std::string build, Nanos lease,
                                           const Clock& clock)
    : hub_(hub), book_(book), build_(std::move(build)), lease_(lease), clock_(clock), worker_([this] {
        SetThreadName("api");
        Work();
      }) {}

ControllerApiService::~ControllerApiService() {
  jobs_.Close();
  worker_.join();
}

void ControllerApiService::Work() {
  for (;;) {
    if (std::optional<Job> job = jobs_.Pop(kSecond)) {
      (*job)();
    } else if (jobs_.closed()) {
      return;
    }
  }
}

bool ControllerApiService::TakeStream() {
  std::lock_guard lock(mutex_);
  if (streams_ >= kStreams) return false;
  ++streams_;
  return true;
}

void ControllerApiService::StreamOver() {
  std::lock_guard lock(mutex_);
  --streams_;
  last_over_ = clock_.Now();
  ended_.notify_all();
}

bool ControllerApiService::WaitForQuiet(Nanos quiet, Nanos timeout) {
  const Nanos until = clock_.Now() + timeout;
  std::unique_lock lock(mutex_);
  for (;;) {
    const Nanos now = clock_.Now();
    const Nanos calm = last_over_ == kNever ? 0 : last_over_ + quiet;
    if (streams_ == 0 && now >= calm) return true;
    if (now >= until) return false;
    const Nanos next = streams_ == 0 ? std::min(until, calm) : until;
    ended_.wait_for(lock, std::chrono::nanoseconds(next - now));
  }
}

grpc::ServerUnaryReactor* ControllerApiService::ListAgents(grpc::CallbackServerContext* context,
                                                           const v1::ListAgentsRequest*, v1::AgentList* reply) {
  NoteReceipt(context->peer());
  const Nanos now = clock_.Now();
  for (const Member& member : hub_.Everybody()) {
    *reply->add_agents() = StateOf(member, book_.UserOf(member.hello.agent_id), lease_, now);
  }
  for (const std::string& refusal : hub_.Refusals()) reply->add_refusals(WireText(refusal, 8192));
  reply->set_build(WireText(build_, 128));
  reply->set_lease_ns(lease_);
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* ControllerApiService::SubmitRun(grpc::CallbackServerContext* context,
                                                          const v1::SubmitRunRequest* request,
                                                          v1::SubmitRunReply* reply) {
  NoteReceipt(context->peer());
  auto* reactor = context->DefaultReactor();
  if (absl::Status status = ValidateMessage(*request); !status.ok()) {
    reactor->Finish(ToGrpc(status));
    return reactor;
  }
  const bool taken = jobs_.TryPush([this, reactor, request, reply] {
    auto submission = ReadSubmission(*request);
    if (!submission.ok()) return reactor->Finish(ToGrpc(submission.status()));
    auto run = book_.Submit(*std::move(submission));
    if (!run.ok()) return reactor->Finish(ToGrpc(run.status()));
    reply->set_run(*std::move(run));
    reactor->Finish(grpc::Status::OK);
  });
  if (!taken) reactor->Finish(ToGrpc(Busy("too many requests wait")));
  return reactor;
}

grpc::ServerWriteReactor<v1::RunEvent>* ControllerApiService::WatchRun(grpc::CallbackServerContext* context,
                                                                       const v1::WatchRunRequest* request) {
  NoteReceipt(context->peer());
  auto stream = std::make_shared<WatchStream>(context, context->peer(), request->detail());
  const bool taken = TakeStream();
  stream->Begin([this, taken] {
    if (taken) StreamOver();
  });
  absl::Status status = taken ? ValidateMessage(*request) : Busy("too many clients watch");
  if (status.ok()) status = book_.Watch(request->run(), stream);
  if (!status.ok()) stream->Close(status, /*at_once=*/false);
  return stream.get();
}

grpc::ServerUnaryReactor* ControllerApiService::CancelRun(grpc::CallbackServerContext* context,
                                                          const v1::CancelRunRequest* request,
                                                          v1::CancelRunReply* reply) {
  NoteReceipt(context->peer());
  auto* reactor = context->DefaultReactor();
  absl::Status status = ValidateMessage(*request);
  if (status.ok()) {
    auto cancelled = book_.Cancel(request->run(), request->now());
    status = cancelled.status();
    if (cancelled.ok()) {
      reply->set_run(cancelled->run);
      reply->set_waiting(cancelled->waiting);
    }
  }
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* ControllerApiService::ListRuns(grpc::CallbackServerContext* context,
                                                         const v1::ListRunsRequest*, v1::RunList* reply) {
  NoteReceipt(context->peer());
  *reply = book_.List();
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<v1::ResultChunk>* ControllerApiService::GetResult(grpc::CallbackServerContext* context,
                                                                           const v1::GetResultRequest* request) {
  NoteReceipt(context->peer());
  auto stream = std::make_shared<ResultStream>(context);
  const bool stream_taken = TakeStream();
  stream->Begin([this, stream_taken] {
    if (stream_taken) StreamOver();
  });
  absl::Status status = stream_taken ? ValidateMessage(*request) : Busy("too many clients read results");
  if (!status.ok()) {
    stream->Close(status, /*at_once=*/false);
    return stream.get();
  }
  // The request may be gone when a client that left is found out.
  const bool queued = jobs_.TryPush([this, stream, run = request->run(), form = request->form()] {
    const auto text = [&]() -> absl::StatusOr<std::string> {
      MUSTER_ASSIGN_OR_RETURN(const std::string path, book_.ResultPath(run));
      MUSTER_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(path));
      return form == v1::RESULT_FORM_JSON ? RunJson(*reader) : FormatResultsTable(*reader);
    };
    stream->Send(text());
  });
  if (!queued) stream->Close(Busy("too many requests wait"), /*at_once=*/false);
  return stream.get();
}

}  // namespace muster
