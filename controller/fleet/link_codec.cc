#include "controller/fleet/link_codec.h"

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/codec_probe.h"
#include "common/wire/rules.h"

namespace muster {
namespace {

using google::protobuf::RepeatedPtrField;

Facts Decode(const RepeatedPtrField<v1::Fact>& facts) {
  Facts out;
  out.reserve(facts.size());
  for (const v1::Fact& fact : facts) out.emplace_back(fact.name(), fact.value());
  return out;
}

template <typename Message>
absl::Status StatusOf(const Message& message) {
  return message.has_error() ? FromProto(message.error()) : absl::OkStatus();
}

absl::StatusOr<AgentSays> Decode(const v1::AttachDone& from) {
  AttachDone out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(from.key()));
  out.target = from.target();
  out.status = StatusOf(from);
  out.generation = from.generation();
  out.evidence = Decode(from.evidence());
  return out;
}

absl::StatusOr<AgentSays> Decode(const v1::PrepareDone& from) {
  PrepareDone out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(from.key()));
  out.status = StatusOf(from);
  out.memory_bytes = from.memory_bytes();
  out.facts = Decode(from.facts());
  return out;
}

absl::StatusOr<AgentSays> Decode(const v1::StartDone& from) {
  StartDone out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(from.key()));
  out.missed = from.missed();
  out.offset = from.offset_ns();
  out.error = from.error_ns();
  out.local_t0 = from.local_t0();
  return out;
}

absl::StatusOr<AgentSays> Decode(const v1::FirstIo& from) {
  FirstIo out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(from.key()));
  out.local = from.local_ns();
  out.fleet = from.fleet_ns();
  out.wake_lateness = from.wake_lateness_ns();
  return out;
}

absl::StatusOr<AgentSays> Decode(const v1::Progress& from) {
  FillReport out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(from.key()));
  out.bytes_done = from.bytes_done();
  out.bytes_total = from.bytes_total();
  return out;
}

absl::StatusOr<AgentSays> Decode(const v1::DetachDone& from) {
  DetachDone out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(from.key()));
  out.status = StatusOf(from);
  return out;
}

absl::StatusOr<AgentSays> Decode(const v1::Refused& from) {
  Refused out;
  // The key of a command that could not even be read may be empty: it then names no phase of any run.
  if (const auto key = FromProto(from.key()); key.ok()) out.key = *key;
  out.status = from.has_error()
                   ? FromProto(from.error())
                   : MakeError(absl::StatusCode::kUnknown,
                               {.code = "REFUSED", .place = {}, .message = "the agent gave no reason", .next = {}});
  return out;
}

AgentSays Decode(const v1::InspectDone& from) {
  InspectDone out;
  out.request = from.request();
  for (const v1::Inspection& i : from.inspections()) {
    InspectionInfo& info = out.inspections.emplace_back();
    info.target = i.target();
    info.place = i.place();
    info.identity = i.identity();
    info.size = i.size();
    info.found = i.found();
    info.writable = i.writable();
    info.verdict = i.verdict();
    info.would_write = i.would_write();
    if (i.has_refusal()) info.refusal = FromProto(i.refusal());
    info.notes.assign(i.notes().begin(), i.notes().end());
    if (i.has_probe()) info.probe = FromProto(i.probe());
  }
  return out;
}

void Encode(const AttachCommand& from, v1::ControllerMessage& out) {
  v1::Attach& to = *out.mutable_attach();
  *to.mutable_key() = ToProto(from.key);
  to.set_target_name(from.target.name);
  *to.mutable_target() = ToProtoWithSecrets(from.target);
  ToProto(from.objects, to.mutable_objects());
  to.set_writes(from.writes);
  to.set_guard(from.guard);
  to.set_generation(from.generation);
  to.set_min_block(from.min_block);
  to.set_deadline_ns(from.deadline);
}

void Encode(const PrepareCommand& from, v1::ControllerMessage& out) {
  *out.mutable_prepare() = ToProto(from.spec);
  out.mutable_prepare()->set_deadline_ns(from.deadline);
}

void Encode(const StartCommand& from, v1::ControllerMessage& out) {
  *out.mutable_start()->mutable_key() = ToProto(from.key);
  out.mutable_start()->set_t0_fleet(from.t0_fleet);
}

void Encode(const StopCommand& from, v1::ControllerMessage& out) {
  *out.mutable_stop()->mutable_key() = ToProto(from.key);
  out.mutable_stop()->set_now(from.now);
  out.mutable_stop()->set_after_interval(from.after_interval);
}

void Encode(const DetachCommand& from, v1::ControllerMessage& out) {
  *out.mutable_detach()->mutable_key() = ToProto(from.key);
  out.mutable_detach()->set_all(from.all);
  out.mutable_detach()->set_target_name(from.target);
}

void Encode(const InspectCommand& from, v1::ControllerMessage& out) {
  out.mutable_inspect()->set_request(from.request);
  for (const InspectItem& item : from.items) {
    v1::InspectTarget& to = *out.mutable_inspect()->add_targets();
    to.set_target_name(item.target.name);
    *to.mutable_target() = ToProtoWithSecrets(item.target);
    ToProto(item.objects, to.mutable_objects());
    to.set_writes(item.writes);
    to.set_probe(item.probe);
  }
}

}  // namespace

absl::StatusOr<HelloInfo> DecodeHello(const v1::Hello& from) {
  HelloInfo out;
  out.api_min = from.api_min();
  out.api_max = from.api_max();
  out.build = from.build();
  out.capabilities.assign(from.capabilities().begin(), from.capabilities().end());
  out.agent_id = from.agent_id();
  out.instance = from.instance();
  out.host_id = from.host_id();
  out.boot_id = from.boot_id();
  out.time_namespace = from.time_namespace();
  out.hostname = from.hostname();
  out.host_facts = Decode(from.host_facts());
  for (const v1::Fact& label : from.labels()) {
    if (!IsLabelText(label.name()) || !IsLabelText(label.value())) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.code = "HELLO_INVALID",
                                                            .place = "agent " + out.agent_id,
                                                            .message = "a label that is none",
                                                            .next = "Install an agent of the controller's release."});
    }
    out.labels[label.name()] = label.value();
  }
  if (from.has_held()) {
    out.last_sequence = from.held().last_sequence();
    out.held_epoch = from.held().controller_epoch();
    out.held_live = from.held().live();
    out.held_heard = from.held().heard();
    out.held_run = from.held().key().run();
    out.held_committed = from.held().committed();
  }
  return out;
}

BeatInfo DecodeBeat(const v1::Beat& from) {
  return {.seq = from.seq(),
          .t1 = from.t1(),
          .previous_seq = from.previous_seq(),
          .previous_t4 = from.previous_t4(),
          .offset = from.offset_ns(),
          .error = from.error_ns(),
          .round_trip = from.round_trip_ns(),
          .heard = from.heard()};
}

absl::StatusOr<AgentSays> DecodeMessage(const v1::AgentMessage& message) {
  switch (message.body_case()) {
    case v1::AgentMessage::kAttachDone:
      return Decode(message.attach_done());
    case v1::AgentMessage::kPrepareDone:
      return Decode(message.prepare_done());
    case v1::AgentMessage::kStartDone:
      return Decode(message.start_done());
    case v1::AgentMessage::kFirstIo:
      return Decode(message.first_io());
    case v1::AgentMessage::kProgress:
      return Decode(message.progress());
    case v1::AgentMessage::kDetachDone:
      return Decode(message.detach_done());
    case v1::AgentMessage::kInspectDone:
      return Decode(message.inspect_done());
    case v1::AgentMessage::kRefused:
      return Decode(message.refused());
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::kBeat:
    case v1::AgentMessage::kLeaving:
    case v1::AgentMessage::BODY_NOT_SET:
      break;
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "MESSAGE_OUT_OF_ORDER",
                                                           .place = "Control",
                                                           .message = "a second Hello, or a message without a body",
                                                           .next = {}});
}

absl::StatusOr<AgentReport> DecodeReport(const v1::ReportMessage& message) {
  AgentReport out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(message.key()));
  out.sequence = message.sequence();
  if (message.has_interval()) {
    MUSTER_ASSIGN_OR_RETURN(out.body, FromProto(message.interval()));
  } else if (message.has_held()) {
    MUSTER_ASSIGN_OR_RETURN(out.body, FromProto(message.held()));
  } else if (message.has_ended()) {
    const v1::PhaseEnded& from = message.ended();
    PhaseEnded ended;
    MUSTER_ASSIGN_OR_RETURN(ended.totals, FromProto(from.totals()));
    ended.status = StatusOf(from);
    ended.offset_at_start = from.offset_at_start();
    ended.error_at_start = from.error_at_start();
    ended.offset_at_end = from.offset_at_end();
    ended.error_at_end = from.error_at_end();
    out.body = std::move(ended);
  } else {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "MESSAGE_INVALID",
                      .place = "ReportMessage",
                      .message = "neither an interval, held histograms nor the end of a phase",
                      .next = {}});
  }
  return out;
}

v1::ControllerMessage EncodeCommand(uint64_t seq, const AgentCommand& command) {
  v1::ControllerMessage out;
  out.set_seq(seq);
  std::visit([&](const auto& c) { Encode(c, out); }, command);
  return out;
}

}  // namespace muster
