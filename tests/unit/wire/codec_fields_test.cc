// Fails when a message gains a field that the codec does not carry: every field reachable from the messages below is
// changed alone, and the change must come back after a round trip through the plain structs, or be refused.
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/codec_probe.h"
#include "common/wire/rules.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;

// Another value of the field's type, unlike the present one.
void ChangeScalar(Message& message, const FieldDescriptor& field) {
  const Reflection& r = *message.GetReflection();
  const bool repeated = field.is_repeated();
  const auto change = [&](auto get, auto get_at, auto set, auto set_at, auto other) {
    if (repeated) {
      REQUIRE(r.FieldSize(message, &field) > 0);
      (r.*set_at)(&message, &field, 0, other((r.*get_at)(message, &field, 0)));
    } else {
      (r.*set)(&message, &field, other((r.*get)(message, &field)));
    }
  };
  const auto plus_one = [](auto v) { return v + 1; };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return change(&Reflection::GetInt32, &Reflection::GetRepeatedInt32, &Reflection::SetInt32,
                    &Reflection::SetRepeatedInt32, plus_one);
    case FieldDescriptor::CPPTYPE_INT64:
      return change(&Reflection::GetInt64, &Reflection::GetRepeatedInt64, &Reflection::SetInt64,
                    &Reflection::SetRepeatedInt64, plus_one);
    case FieldDescriptor::CPPTYPE_UINT32:
      return change(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32, &Reflection::SetUInt32,
                    &Reflection::SetRepeatedUInt32, plus_one);
    case FieldDescriptor::CPPTYPE_UINT64:
      return change(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64, &Reflection::SetUInt64,
                    &Reflection::SetRepeatedUInt64, plus_one);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return change(&Reflection::GetDouble, &Reflection::GetRepeatedDouble, &Reflection::SetDouble,
                    &Reflection::SetRepeatedDouble, [](double v) { return v / 2 + 0.0625; });
    case FieldDescriptor::CPPTYPE_BOOL:
      return change(&Reflection::GetBool, &Reflection::GetRepeatedBool, &Reflection::SetBool,
                    &Reflection::SetRepeatedBool, [](bool v) { return !v; });
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int count = field.enum_type()->value_count();
      REQUIRE(count > 2);  // the unspecified one and two to tell apart
      return change(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue, &Reflection::SetEnumValue,
                    &Reflection::SetRepeatedEnumValue, [&](int v) { return v % (count - 1) + 1; });
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string value = repeated ? r.GetRepeatedString(message, &field, 0) : r.GetString(message, &field);
      const std::string other = field.name() == "load" ? "3T5Q" : value + "x";
      if (repeated) return r.SetRepeatedString(&message, &field, 0, other);
      return r.SetString(&message, &field, other);
    }
    default:
      FAIL("a field type this test does not know: " << field.full_name());
  }
}

using RoundTrip = std::function<absl::StatusOr<std::unique_ptr<Message>>(const Message&)>;

class FieldWalk {
 public:
  explicit FieldWalk(RoundTrip trip) : trip_(std::move(trip)) {}

  void Walk(const Message& base) {
    auto same = trip_(base);
    REQUIRE(same.ok());
    INFO("sent " << base.DebugString() << "\ngot back " << (*same)->DebugString());
    REQUIRE(MessageDifferencer::Equals(base, **same));
    std::unique_ptr<Message> root(base.New());
    root->CopyFrom(base);
    Visit(*root, *root);
  }
  const std::set<const FieldDescriptor*>& visited() const { return visited_; }

 private:
  void Visit(Message& root, Message& at) {
    const Descriptor& type = *at.GetDescriptor();
    const Reflection& r = *at.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      REQUIRE(!field.is_map());
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        if (field.is_repeated()) {
          if (r.FieldSize(at, &field) == 0) continue;
          Visit(root, *r.MutableRepeatedMessage(&at, &field, 0));
        } else {
          if (!r.HasField(at, &field)) continue;
          Visit(root, *r.MutableMessage(&at, &field));
        }
        visited_.insert(&field);
        continue;
      }
      visited_.insert(&field);
      std::unique_ptr<Message> before(at.New());
      before->CopyFrom(at);
      ChangeScalar(at, field);
      auto back = trip_(root);
      INFO(field.full_name() << " is not read by the codec");
      CHECK((!back.ok() || MessageDifferencer::Equals(root, **back)));
      at.CopyFrom(*before);
    }
  }

  RoundTrip trip_;
  std::set<const FieldDescriptor*> visited_;
};

template <typename Proto>
RoundTrip Trip() {
  return [](const Message& in) -> absl::StatusOr<std::unique_ptr<Message>> {
    auto plain = FromProto(static_cast<const Proto&>(in));
    if (!plain.ok()) return plain.status();
    return std::make_unique<Proto>(ToProto(*plain));
  };
}

// Every field of `type` and of the messages below it was changed once.
void RequireAllVisited(const Descriptor& type, const std::set<const FieldDescriptor*>& visited) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    INFO(field.full_name() << " is in no message of this test: add it to the base message");
    REQUIRE(visited.count(&field) == 1);
    if (field.message_type() != nullptr) RequireAllVisited(*field.message_type(), visited);
  }
}

EncodedHistogram SomeHistogram() {
  Histogram h;
  h.Record(1'000);
  h.Record(3'000);
  REQUIRE(h.RecordMany(2'000'000, 5).ok());
  return h.Encode();
}

v1::Histogram WireHistogram() {
  return ToProto(SomeHistogram());
}

// Large enough to travel packed.
v1::Histogram PackedHistogram() {
  Histogram h;
  for (uint64_t value = 1'000; value < 1'500; ++value) h.Record(value);
  return ToProto(h.Encode());
}

v1::KindDelta FullKindDelta() {
  v1::KindDelta kind;
  kind.set_kind(v1::OP_KIND_READ);
  kind.set_due_in_window(true);
  kind.set_completed(7);
  kind.set_bytes(7 * 4096);
  *kind.mutable_response() = WireHistogram();
  *kind.mutable_wait() = WireHistogram();
  *kind.mutable_service() = PackedHistogram();
  *kind.mutable_unfinished() = WireHistogram();
  v1::ErrorDelta* error = kind.add_errors();
  error->set_outcome(v1::OUTCOME_TIMEOUT);
  error->set_native_code(110);
  error->set_count(7);
  *error->mutable_response() = WireHistogram();
  return kind;
}

v1::IntervalDelta FullInterval() {
  v1::IntervalDelta delta;
  delta.set_interval(12);
  delta.set_drain(true);
  delta.set_gap(true);
  delta.set_length_ns(1'000'000'000);
  delta.set_edge_error_ns(4'000);
  delta.set_stamp_error_ns(700);
  delta.set_poll_gap_max_ns(9'000);
  delta.set_cpu_ns(123'456);
  *delta.mutable_hiccup() = WireHistogram();
  v1::InitiatorDelta* initiator = delta.add_initiators();
  initiator->set_initiator(3);
  initiator->mutable_offered_integral()->set_high(2);
  initiator->mutable_offered_integral()->set_low(5);
  initiator->mutable_wire_integral()->set_high(1);
  initiator->mutable_wire_integral()->set_low(7);
  initiator->set_outstanding(16);
  initiator->set_waiting(2);
  initiator->set_oldest_age_ns(55);
  initiator->set_time_full_ns(44);
  *initiator->add_kinds() = FullKindDelta();
  *initiator->mutable_lateness() = WireHistogram();
  initiator->set_held(true);
  return delta;
}

v1::HeldHistograms FullHeld() {
  v1::HeldHistograms held;
  held.set_initiator(3);
  held.set_first_interval(4);
  held.set_last_interval(9);
  held.set_intervals(5);
  held.set_drain(true);
  *held.mutable_kind() = FullKindDelta();
  *held.mutable_lateness() = WireHistogram();
  return held;
}

v1::PhaseTotals FullTotals() {
  v1::PhaseTotals totals;
  v1::InitiatorTotals* initiator = totals.add_initiators();
  initiator->set_initiator(1);
  v1::KindTotals* kind = initiator->add_kinds();
  kind->set_kind(v1::OP_KIND_WRITE);
  kind->set_submitted(100);
  kind->set_completed(90);
  kind->set_failed(5);
  kind->set_aborted(3);
  kind->set_abandoned(2);
  kind->set_bytes(90 * 512);
  totals.set_straggle_count(9);
  v1::StraggleOp* op = totals.add_stragglers();
  op->set_initiator(1);
  op->set_kind(v1::OP_KIND_TRIM);
  op->set_age_at_end_ns(11);
  op->set_final_age_ns(22);
  op->set_ended(true);
  totals.set_last_sequence(77);
  totals.set_last_interval(14);
  totals.set_overloaded(true);
  totals.set_poisoned(true);
  v1::ConnectionTotals* connection = totals.add_connections();
  connection->set_initiator(1);
  connection->set_connection(2);
  connection->set_down_ns(3);
  connection->add_counters()->set_name("reconnects");
  connection->mutable_counters(0)->set_value(4);
  return totals;
}

v1::Prepare BasePrepare(v1::PhaseKind phase) {
  v1::Prepare prepare;
  prepare.mutable_key()->set_run("20240101-abc");
  prepare.mutable_key()->set_step(2);
  prepare.mutable_key()->set_phase(phase);
  prepare.mutable_key()->set_attempt(1);
  prepare.set_target_name("disk");
  v1::ObjectSpec* object = prepare.add_objects();
  object->set_name("data");
  object->set_size(1 << 20);
  prepare.add_initiators(0);
  prepare.set_initiator_count(2);
  prepare.set_initiator_count_max(4);
  prepare.set_initiators_sharing(1);
  prepare.set_interval_ns(1'000'000'000);
  prepare.set_op_timeout_ns(90'000'000'000);
  return prepare;
}

v1::Prepare FillPrepare() {
  v1::Prepare prepare = BasePrepare(v1::PHASE_KIND_FILL);
  v1::FillSpec* fill = prepare.mutable_fill();
  fill->set_block(65536);
  fill->set_depth(8);
  fill->set_passes(2);
  fill->set_seed(5);
  v1::FillExtent* extent = fill->add_extents();
  extent->set_offset(4096);
  extent->set_length(8192);
  return prepare;
}

v1::Prepare MeasurePrepare(v1::Pacing pacing) {
  v1::Prepare prepare = BasePrepare(v1::PHASE_KIND_MEASURE);
  v1::MeasureSpec* measure = prepare.mutable_measure();
  v1::Workload* workload = measure->mutable_workload();
  workload->set_block(8192);
  workload->set_pattern(v1::PATTERN_SEQUENTIAL);
  workload->set_read(0.5);
  workload->set_trim(0.25);
  workload->set_flush_every(64);
  workload->set_layout(v1::LAYOUT_PARTITION);
  workload->set_pacing(pacing);
  if (pacing != v1::PACING_CLOSED) workload->set_rate(1000);
  workload->set_rate_per(v1::RATE_PER_INITIATOR);
  workload->set_max_outstanding(512);
  workload->set_overload_after(30'000'000'000);
  measure->set_total_size(1 << 20);
  measure->set_load("2T16Q");
  measure->set_seed(9);
  measure->set_warmup_intervals(2);
  measure->set_window_intervals(10);
  return prepare;
}

TEST_CASE("every field of a report is carried") {
  FieldWalk interval(Trip<v1::IntervalDelta>());
  interval.Walk(FullInterval());
  RequireAllVisited(*v1::IntervalDelta::descriptor(), interval.visited());

  FieldWalk held(Trip<v1::HeldHistograms>());
  held.Walk(FullHeld());
  RequireAllVisited(*v1::HeldHistograms::descriptor(), held.visited());

  FieldWalk totals(Trip<v1::PhaseTotals>());
  totals.Walk(FullTotals());
  RequireAllVisited(*v1::PhaseTotals::descriptor(), totals.visited());
}

TEST_CASE("every field of a target is carried") {
  FieldWalk walk([](const Message& in) -> absl::StatusOr<std::unique_ptr<Message>> {
    auto plain = FromProto("t", static_cast<const v1::Target&>(in));
    if (!plain.ok()) return plain.status();
    return std::make_unique<v1::Target>(ToProtoWithSecrets(*plain));
  });
  v1::Target null;
  null.mutable_null()->mutable_latency()->set_mean(100'000);
  null.mutable_null()->mutable_latency()->set_shape(v1::LATENCY_SHAPE_UNIFORM);
  null.mutable_null()->add_stalls()->set_at(5);
  null.mutable_null()->mutable_stalls(0)->set_for_(7);
  null.mutable_null()->set_errors(0.25);
  null.mutable_null()->set_queue_limit(64);
  null.mutable_null()->set_hang(true);
  walk.Walk(null);
  v1::Target file;
  file.mutable_file()->set_dir("/var/tmp/bench");
  file.mutable_file()->set_files(v1::FILE_LAYOUT_PER_STREAM);
  file.mutable_file()->set_direct(true);
  file.mutable_file()->set_keep(true);
  walk.Walk(file);
  v1::Target block;
  block.mutable_block()->set_device("/dev/sdz");
  block.mutable_block()->set_direct(true);
  block.mutable_block()->mutable_overwrite()->set_id("naa.1");
  block.mutable_block()->mutable_overwrite()->set_size(960'000'000'000);
  walk.Walk(block);
  v1::Target iscsi;
  v1::IscsiTarget& lun = *iscsi.mutable_iscsi();
  lun.add_portal("192.0.2.10:3260");
  lun.set_iqn("iqn.2026-11.example:db");
  lun.add_lun("3");
  lun.set_initiator("iqn.2026-11.example:{initiator}");
  lun.add_source("192.0.2.20");
  lun.set_connections("2");
  lun.set_header_digest(v1::ISCSI_DIGEST_CRC32C);
  lun.set_data_digest(v1::ISCSI_DIGEST_NONE);
  lun.set_transport(v1::ISCSI_TRANSPORT_TCP);
  lun.set_driver("user");
  lun.mutable_overwrite()->set_id("naa.1");
  lun.mutable_overwrite()->set_size(960'000'000'000);
  iscsi.mutable_chap()->set_user("bench");
  iscsi.mutable_chap()->mutable_secret()->set_env("CHAP");
  iscsi.mutable_chap()->mutable_secret()->set_value("secret");
  iscsi.mutable_chap()->set_mutual_user("target");
  iscsi.mutable_chap()->mutable_mutual_secret()->set_file("/etc/muster/chap");
  iscsi.mutable_chap()->mutable_mutual_secret()->set_value("other");
  walk.Walk(iscsi);
  RequireAllVisited(*v1::Target::descriptor(), walk.visited());
}

TEST_CASE("secrets go to agents alone") {
  Target target{.name = "t", .kind = IscsiTarget{}};
  auto& iscsi = std::get<IscsiTarget>(target.kind);
  iscsi.portals = {"h"};
  iscsi.luns = {0};
  iscsi.user = "bench";
  iscsi.secret = {.reference = "env:CHAP", .value = "hush-hush"};
  iscsi.mutual_user = "target";
  iscsi.mutual_secret = {.reference = "file:/x", .value = "very-quiet"};
  const std::string stored = ToProto(target).SerializeAsString();
  CHECK(stored.find("hush-hush") == std::string::npos);
  CHECK(stored.find("very-quiet") == std::string::npos);
  CHECK(stored.find("CHAP") != std::string::npos);
  const auto sent = FromProto("t", ToProtoWithSecrets(target));
  REQUIRE(sent.ok());
  CHECK(std::get<IscsiTarget>(sent->kind).secret.value == "hush-hush");
  CHECK(std::get<IscsiTarget>(sent->kind).mutual_secret.value == "very-quiet");
}

TEST_CASE("every field of Prepare is carried") {
  FieldWalk walk([&](const Message& in) -> absl::StatusOr<std::unique_ptr<Message>> {
    auto plain = FromProto(static_cast<const v1::Prepare&>(in));
    if (!plain.ok()) return plain.status();
    auto out = std::make_unique<v1::Prepare>(ToProto(*plain));
    // The deadline is the session's, not the engine's: the codec leaves it to the caller.
    out->set_deadline_ns(static_cast<const v1::Prepare&>(in).deadline_ns());
    // The campaign's wording of total_size: read, checked against it, not needed beyond.
    const v1::Workload& sizes = static_cast<const v1::Prepare&>(in).measure().workload();
    if (sizes.size() != 0) out->mutable_measure()->mutable_workload()->set_size(sizes.size());
    if (sizes.size_per_initiator() != 0) {
      out->mutable_measure()->mutable_workload()->set_size_per_initiator(sizes.size_per_initiator());
    }
    return out;
  });
  walk.Walk(FillPrepare());
  walk.Walk(MeasurePrepare(v1::PACING_CLOSED));
  walk.Walk(MeasurePrepare(v1::PACING_FIXED));
  RequireAllVisited(*v1::Prepare::descriptor(), walk.visited());
}

TEST_CASE("every field of what a target offers is carried") {
  FieldWalk walk([](const Message& in) -> absl::StatusOr<std::unique_ptr<Message>> {
    return std::make_unique<v1::TargetProbe>(ToProto(FromProto(static_cast<const v1::TargetProbe&>(in))));
  });
  v1::TargetProbe probe;
  v1::Fact* fact = probe.add_session();
  fact->set_name("MaxBurstLength");
  fact->set_value("262144");
  probe.set_luns_reported(3);
  v1::ProbedLun* lun = probe.add_luns();
  lun->set_lun(7);
  lun->set_used(true);
  lun->set_vendor("V");
  lun->set_product("P");
  lun->set_revision("R");
  lun->set_serial("S");
  lun->add_wwids("naa.1");
  lun->set_size(1 << 30);
  lun->set_block(512);
  lun->set_physical_block(4096);
  lun->set_write_protected(true);
  lun->set_write_cache(true);
  lun->set_fua(true);
  lun->set_unmap(true);
  lun->set_reads_zeroes(true);
  lun->set_max_unmap(1 << 20);
  lun->set_max_unmap_ranges(32);
  lun->set_unmap_granularity(4096);
  lun->set_max_transfer(1 << 21);
  lun->set_optimal_transfer(1 << 19);
  lun->set_found("blank");
  lun->mutable_refusal()->set_kind(9);
  lun->mutable_refusal()->set_code("TARGET_READ_ONLY");
  lun->mutable_refusal()->set_place("LUN 7");
  lun->mutable_refusal()->set_message("protected");
  lun->mutable_refusal()->set_next("lift it");
  walk.Walk(probe);
  RequireAllVisited(*v1::TargetProbe::descriptor(), walk.visited());
  // What is not told stays so.
  v1::TargetProbe untold;
  untold.add_luns()->set_lun(1);
  CHECK(MessageDifferencer::Equals(untold, ToProto(FromProto(untold))));
}

TEST_CASE("what a target offers is bounded on the wire and passes validation") {
  TargetProbe probe;
  probe.session.resize(100, {std::string(500, 'n'), std::string(9000, 'v')});
  probe.luns_reported = 300;
  ProbedLun lun{.lun = 16'383, .vendor = std::string(100, 'a')};
  lun.product = lun.revision = std::string(100, 'b');
  lun.serial = std::string(1000, '\xff');
  lun.wwids.resize(40, std::string(1000, 'w'));
  lun.found = std::string(10'000, 'f');
  lun.refusal = MakeError(absl::StatusCode::kInternal, {std::string(200, 'C'), std::string(9000, 'p'),
                                                        std::string(9000, 'm'), std::string(9000, 'n')});
  probe.luns.resize(300, lun);
  const v1::TargetProbe wire = ToProto(probe);
  CHECK(wire.luns_size() == kMostProbedLuns);
  const absl::Status valid = ValidateMessage(wire);
  INFO(valid);
  CHECK(valid.ok());
}

TEST_CASE("the two wordings of the size must agree with the resolved one") {
  v1::Prepare prepare = MeasurePrepare(v1::PACING_CLOSED);
  v1::Workload* workload = prepare.mutable_measure()->mutable_workload();
  workload->set_size(1 << 20);
  workload->set_size_per_initiator(1 << 18);
  CHECK(FromProto(prepare).ok());
  workload->set_size((1 << 20) + 1);
  CHECK(GetErrorInfo(FromProto(prepare).status()).code == "MESSAGE_INVALID");
  workload->set_size(0);
  workload->set_size_per_initiator(3000);
  CHECK(GetErrorInfo(FromProto(prepare).status()).place == "measure.workload.size_per_initiator");
}

TEST_CASE("the walk itself notices a field that is dropped") {
  // A codec that forgets `keep` must fail the comparison that the walk makes.
  v1::Target file;
  file.mutable_file()->set_dir("/d");
  file.mutable_file()->set_files(v1::FILE_LAYOUT_ONE);
  file.mutable_file()->set_keep(true);
  auto plain = FromProto("t", file);
  REQUIRE(plain.ok());
  std::get<FileTarget>(plain->kind).keep = false;
  CHECK_FALSE(MessageDifferencer::Equals(file, ToProto(*plain)));
}

}  // namespace
}  // namespace muster
