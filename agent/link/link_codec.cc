#include "agent/link/link_codec.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/plan/labels.h"
#include "common/wire/codec.h"
#include "common/wire/codec_probe.h"
#include "common/wire/invalid.h"
#include "common/wire/text.h"

namespace muster::agent {
namespace {

// Limits of the rules in agent_link.proto: what this agent says of its host must not be refused for its length.
constexpr size_t kFactsMax = 64;
constexpr size_t kPreparedFactsMax = 256;
constexpr size_t kNameMax = 64;
constexpr size_t kIdMax = 128;
constexpr size_t kTextMax = 4096;
constexpr size_t kNotesMax = 8;
constexpr size_t kNoteMax = 256;

struct Encoder {
  v1::AgentMessage* out;

  void operator()(const Beat& m) const {
    v1::Beat* to = out->mutable_beat();
    to->set_seq(m.seq);
    to->set_t1(m.t1);
    to->set_previous_seq(m.previous_seq);
    to->set_previous_t4(m.previous_t4);
    to->set_offset_ns(m.offset);
    to->set_error_ns(m.error);
    to->set_round_trip_ns(m.round_trip);
    to->set_heard(m.heard);
  }
  void operator()(const AttachDone& m) const {
    v1::AttachDone* to = out->mutable_attach_done();
    *to->mutable_key() = ToProto(m.key);
    to->set_target(m.target);
    if (!m.status.ok()) *to->mutable_error() = ToProto(m.status);
    to->set_generation(m.generation);
    ToProto(m.evidence, kFactsMax, to->mutable_evidence());
  }
  void operator()(const InspectDone& m) const {
    v1::InspectDone* to = out->mutable_inspect_done();
    to->set_request(m.request);
    for (const TargetInspection& from : m.inspections) {
      v1::Inspection* i = to->add_inspections();
      i->set_target(WireText(from.target, kNameMax));
      i->set_place(WireText(from.place, kTextMax));
      i->set_identity(WireText(from.identity, kTextMax));
      i->set_size(from.size);
      i->set_found(WireText(from.found, kTextMax));
      i->set_writable(from.writable);
      i->set_verdict(WireText(from.verdict, kTextMax));
      i->set_would_write(WireText(from.would_write, kTextMax));
      if (!from.refusal.ok()) *i->mutable_refusal() = ToProto(from.refusal);
      for (size_t n = 0; n < std::min(from.notes.size(), kNotesMax); ++n)
        i->add_notes(WireText(from.notes[n], kNoteMax));
      if (from.probe) *i->mutable_probe() = ToProto(*from.probe);
    }
  }
  void operator()(const PrepareDone& m) const {
    v1::PrepareDone* to = out->mutable_prepare_done();
    *to->mutable_key() = ToProto(m.key);
    if (!m.status.ok()) *to->mutable_error() = ToProto(m.status);
    to->set_memory_bytes(m.memory_bytes);
    ToProto(m.facts, kPreparedFactsMax, to->mutable_facts());
  }
  void operator()(const StartDone& m) const {
    v1::StartDone* to = out->mutable_start_done();
    *to->mutable_key() = ToProto(m.key);
    to->set_missed(m.missed);
    to->set_offset_ns(m.offset);
    to->set_error_ns(m.error);
    to->set_local_t0(m.local_t0);
  }
  void operator()(const FirstIo& m) const {
    v1::FirstIo* to = out->mutable_first_io();
    *to->mutable_key() = ToProto(m.key);
    to->set_local_ns(m.local);
    to->set_fleet_ns(m.fleet);
    to->set_wake_lateness_ns(m.wake_lateness);
  }
  void operator()(const Progress& m) const {
    v1::Progress* to = out->mutable_progress();
    *to->mutable_key() = ToProto(m.key);
    to->set_bytes_done(m.bytes_done);
    to->set_bytes_total(m.bytes_total);
  }
  void operator()(const DetachDone& m) const {
    v1::DetachDone* to = out->mutable_detach_done();
    *to->mutable_key() = ToProto(m.key);
    if (!m.status.ok()) *to->mutable_error() = ToProto(m.status);
  }
  void operator()(const Leaving& m) const {
    v1::Leaving* to = out->mutable_leaving();
    if (!m.why.ok()) *to->mutable_error() = ToProto(m.why);
  }
  void operator()(const Refused& m) const {
    v1::Refused* to = out->mutable_refused();
    *to->mutable_key() = ToProto(m.key);
    *to->mutable_error() = ToProto(m.status);
  }
};

absl::StatusOr<AttachRequest> DecodeRequest(const v1::Attach& m) {
  AttachRequest out;
  MUSTER_ASSIGN_OR_RETURN(out.target, FromProto(m.target_name(), m.target()));
  MUSTER_ASSIGN_OR_RETURN(out.objects, FromProto(m.objects()));
  out.run = m.key().run();
  out.writes = m.writes();
  out.guard = m.guard();
  out.generation = m.generation();
  out.min_block = m.min_block();
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::HelloReply& m) {
  HelloReply out{.error = m.has_error() ? FromProto(m.error()) : absl::OkStatus(),
                 .api = m.api(),
                 .build = m.build(),
                 .controller_epoch = m.controller_epoch(),
                 .link_id = m.link_id(),
                 .lease = m.lease_ns(),
                 .last_committed = m.last_committed(),
                 .last_received = m.last_received(),
                 .resumed = m.resumed(),
                 .wants_reports = m.wants_reports(),
                 .heard = m.heard()};
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::BeatReply& m) {
  return BeatReply{
      .seq = m.seq(), .t1 = m.t1(), .t2 = m.t2(), .t3 = m.t3(), .heard = m.heard(), .committed = m.committed()};
}

absl::StatusOr<ControllerSays> Decode(const v1::Attach& m) {
  Attach out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(m.key()));
  if (m.target_name().empty()) return InvalidField("target_name", "the target is not named");
  MUSTER_ASSIGN_OR_RETURN(out.request, DecodeRequest(m));
  if (m.deadline_ns() <= 0) return InvalidField("deadline_ns", "no time is allowed");
  out.allowed = m.deadline_ns();
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::Inspect& m) {
  Inspect out{.request = m.request(), .items = {}};
  for (const v1::InspectTarget& t : m.targets()) {
    InspectItem& item = out.items.emplace_back();
    MUSTER_ASSIGN_OR_RETURN(item.target, FromProto(t.target_name(), t.target()));
    MUSTER_ASSIGN_OR_RETURN(item.objects, FromProto(t.objects()));
    item.writes = t.writes();
    item.probe = t.probe();
  }
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::Prepare& m) {
  Prepare out;
  MUSTER_ASSIGN_OR_RETURN(out.spec, FromProto(m));
  if (m.deadline_ns() <= 0) return InvalidField("deadline_ns", "no time is allowed");
  out.allowed = m.deadline_ns();
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::Start& m) {
  Start out{.key = {}, .t0_fleet = m.t0_fleet()};
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(m.key()));
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::Stop& m) {
  Stop out{.key = {}, .now = m.now(), .after_interval = m.after_interval()};
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(m.key()));
  return out;
}

absl::StatusOr<ControllerSays> Decode(const v1::Detach& m) {
  Detach out{.key = {}, .all = m.all(), .target = m.target_name()};
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(m.key()));
  if (!out.all && out.target.empty()) return InvalidField("target_name", "neither all nor a target is named");
  return out;
}

}  // namespace

v1::AgentMessage ToWire(const Hello& hello) {
  v1::AgentMessage message;
  v1::Hello* to = message.mutable_hello();
  to->set_api_min(hello.api_min);
  to->set_api_max(hello.api_max);
  to->set_build(WireText(hello.build, kIdMax));
  for (const std::string& capability : hello.capabilities) to->add_capabilities(WireText(capability, kNameMax));
  to->set_agent_id(WireText(hello.agent_id, kNameMax));
  to->set_instance(hello.instance);
  to->set_host_id(WireText(hello.host_id, kIdMax));
  to->set_boot_id(WireText(hello.boot_id, kIdMax));
  to->set_time_namespace(hello.time_namespace);
  to->set_hostname(WireText(hello.hostname, 256));
  ToProto(hello.host_facts, kFactsMax, to->mutable_host_facts());
  ToProto(hello.labels, kMaxLabels, to->mutable_labels());
  if (hello.holds) {
    to->mutable_held()->set_controller_epoch(hello.held.controller_epoch);
    if (!hello.held.key.run.empty()) *to->mutable_held()->mutable_key() = ToProto(hello.held.key);
    to->mutable_held()->set_last_sequence(hello.held.last_sequence);
    to->mutable_held()->set_heard(hello.held.heard);
    to->mutable_held()->set_live(hello.held.live);
    to->mutable_held()->set_committed(hello.held.committed);
  }
  return message;
}

v1::AgentMessage ToWire(uint64_t seq, const AgentSays& message) {
  v1::AgentMessage out;
  out.set_seq(seq);
  std::visit(Encoder{&out}, message);
  return out;
}

v1::ReportMessage ToWire(const Report& report, uint64_t link_id) {
  v1::ReportMessage out;
  out.set_link_id(link_id);
  *out.mutable_key() = ToProto(report.key);
  out.set_sequence(report.sequence);
  if (const auto* delta = std::get_if<IntervalDelta>(&report.body)) {
    *out.mutable_interval() = ToProto(*delta);
    return out;
  }
  if (const auto* held = std::get_if<HeldHistograms>(&report.body)) {
    *out.mutable_held() = ToProto(*held);
    return out;
  }
  const auto& ended = std::get<PhaseEnded>(report.body);
  v1::PhaseEnded* to = out.mutable_ended();
  *to->mutable_totals() = ToProto(ended.totals);
  if (!ended.status.ok()) *to->mutable_error() = ToProto(ended.status);
  to->set_offset_at_start(ended.offset_at_start);
  to->set_error_at_start(ended.error_at_start);
  to->set_offset_at_end(ended.offset_at_end);
  to->set_error_at_end(ended.error_at_end);
  return out;
}

absl::StatusOr<ControllerSays> FromWire(const v1::ControllerMessage& message) {
  switch (message.body_case()) {
    case v1::ControllerMessage::kHelloReply:
      return Decode(message.hello_reply());
    case v1::ControllerMessage::kBeatReply:
      return Decode(message.beat_reply());
    case v1::ControllerMessage::kAttach:
      return Decode(message.attach());
    case v1::ControllerMessage::kPrepare:
      return Decode(message.prepare());
    case v1::ControllerMessage::kStart:
      return Decode(message.start());
    case v1::ControllerMessage::kStop:
      return Decode(message.stop());
    case v1::ControllerMessage::kDetach:
      return Decode(message.detach());
    case v1::ControllerMessage::kInspect:
      return Decode(message.inspect());
    case v1::ControllerMessage::kGoodbye:
      return Goodbye{.reason = message.goodbye().reason()};
    case v1::ControllerMessage::BODY_NOT_SET:
      break;
  }
  return InvalidField("body", "there is no body this version knows");
}

PhaseKey RawKeyOf(const v1::ControllerMessage& message) {
  const v1::PhaseKey* key = nullptr;
  switch (message.body_case()) {
    case v1::ControllerMessage::kAttach:
      key = &message.attach().key();
      break;
    case v1::ControllerMessage::kPrepare:
      key = &message.prepare().key();
      break;
    case v1::ControllerMessage::kStart:
      key = &message.start().key();
      break;
    case v1::ControllerMessage::kStop:
      key = &message.stop().key();
      break;
    case v1::ControllerMessage::kDetach:
      key = &message.detach().key();
      break;
    default:
      return {};
  }
  auto whole = FromProto(*key);
  if (whole.ok()) return *whole;
  // A run longer than a run may be is not echoed whole.
  return {.run = WireText(key->run(), kNameMax), .step = key->step(), .phase = {}, .attempt = key->attempt()};
}

}  // namespace muster::agent
