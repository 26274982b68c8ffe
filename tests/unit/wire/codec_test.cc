#include "common/wire/codec.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/wire/text.h"

namespace muster {
namespace {

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

TEST_CASE("a typed error keeps its parts over the wire") {
  const absl::Status status =
      MakeError(absl::StatusCode::kFailedPrecondition,
                {"TARGET_MOUNTED", "/dev/sdb on host a", "it is mounted at /srv", "Unmount it."});
  const absl::Status back = FromProto(ToProto(status));
  CHECK(back.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(GetErrorInfo(back).code == "TARGET_MOUNTED");
  CHECK(GetErrorInfo(back).place == "/dev/sdb on host a");
  CHECK(GetErrorInfo(back).message == "it is mounted at /srv");
  CHECK(GetErrorInfo(back).next == "Unmount it.");
}

TEST_CASE("an Error message is never success") {
  CHECK_FALSE(FromProto(v1::Error()).ok());
  v1::Error error;
  error.set_kind(400);
  CHECK(FromProto(error).code() == absl::StatusCode::kUnknown);
}

TEST_CASE("text is made to fit a string field") {
  CHECK(WireText("plain", 64) == "plain");
  CHECK(WireText("", 4).empty());
  CHECK(WireText("a\xff"
                 "b",
                 64) == "a?b");
  CHECK(WireText("\xc3\xa4\xc3\xb6", 4) == "\xc3\xa4\xc3\xb6");
  CHECK(WireText("\xed\xa0\x80", 64) == "???");  // a surrogate is no character
  CHECK(WireText("\xe2\x82", 64) == "??");       // cut off
  CHECK(WireText("abcdefgh", 6) == "abc...");
  CHECK(WireText("ab\xe2\x82\xac"
                 "fghij",
                 7) == "ab...");  // never half a character
  CHECK(WireText("abcd", 2).size() <= 2);
  const absl::Status status = MakeError(absl::StatusCode::kInternal, {"X", "", std::string(10'000, 'm'), ""});
  CHECK(ToProto(status).message().size() == 4096);
}

TEST_CASE("facts are bounded in number and length") {
  google::protobuf::RepeatedPtrField<v1::Fact> wire;
  const Facts facts{{"a", "1"}, {std::string(500, 'n'), "2"}, {"c", "3"}};
  ToProto(facts, 3, &wire);
  REQUIRE(wire.size() == 3);
  CHECK(wire[1].name().size() <= 128);
  CHECK(FromProto(wire)[0] == std::pair<std::string, std::string>("a", "1"));
  CHECK(FromProto(wire)[2] == std::pair<std::string, std::string>("c", "3"));
  // What does not fit is not dropped in silence.
  wire.Clear();
  ToProto(facts, 2, &wire);
  REQUIRE(wire.size() == 2);
  CHECK(FromProto(wire)[0].first == "a");
  CHECK(FromProto(wire)[1] == std::pair<std::string, std::string>("left out", "2 facts more than a message carries"));
}

TEST_CASE("keys need a run and a known phase") {
  v1::PhaseKey key;
  key.set_phase(v1::PHASE_KIND_FILL);
  CHECK(CodeOf(FromProto(key).status()) == "MESSAGE_INVALID");
  key.set_run("r");
  CHECK(FromProto(key)->phase == PhaseKind::kFill);
  key.set_phase(static_cast<v1::PhaseKind>(99));
  CHECK(CodeOf(FromProto(key).status()) == "MESSAGE_INVALID");
}

TEST_CASE("histograms of another layout or with impossible sums are refused") {
  Histogram histogram;
  REQUIRE(histogram.RecordMany(5'000, 3).ok());
  const v1::Histogram good = ToProto(histogram.Encode());
  REQUIRE(FromProto(good).ok());
  CHECK(Histogram::Decode(*FromProto(good))->count() == 3);
  const auto refused = [&](auto&& change) {
    v1::Histogram bad = good;
    change(bad);
    return CodeOf(FromProto(bad).status()) == "MESSAGE_INVALID";
  };
  CHECK(refused([](v1::Histogram& h) { h.set_digits(2); }));
  CHECK(refused([](v1::Histogram& h) { h.set_highest(1); }));
  CHECK(refused([](v1::Histogram& h) { h.set_counts(std::string(kMaxCountsPayload + 1, '\1')); }));
  CHECK(refused([](v1::Histogram& h) { h.set_min(6'000); }));
  CHECK(refused([](v1::Histogram& h) { h.set_sum(100'000); }));
  CHECK(refused([](v1::Histogram& h) { h.set_count(std::numeric_limits<uint64_t>::max()); }));
  CHECK(refused([](v1::Histogram& h) { h.set_overflow(4); }));
  CHECK(refused([](v1::Histogram& h) { h.set_count(0); }));
}

TEST_CASE("long counter payloads travel packed, and packed ones are checked") {
  Histogram histogram;
  for (uint64_t value = 5'000; value < 6'000; ++value) histogram.Record(value);
  const EncodedHistogram sent = histogram.Encode();
  const v1::Histogram good = ToProto(sent);
  CHECK(good.counts().empty());
  CHECK(good.packed().size() < sent.counts.size());
  REQUIRE(FromProto(good).ok());
  CHECK(*FromProto(good) == sent);
  v1::Histogram plain = good;
  plain.clear_packed();
  plain.set_counts(sent.counts);
  CHECK(*FromProto(plain) == sent);
  v1::Histogram both = good;
  both.set_counts(sent.counts);
  CHECK(CodeOf(FromProto(both).status()) == "MESSAGE_INVALID");
  v1::Histogram none = good;
  none.set_count(0);
  CHECK(CodeOf(FromProto(none).status()) == "MESSAGE_INVALID");
  v1::Histogram cut = good;
  cut.mutable_packed()->pop_back();
  CHECK(CodeOf(FromProto(cut).status()) == "HISTOGRAM_CORRUPT");
  // What cannot be read is sent as it is: who merges it says so.
  EncodedHistogram broken = sent;
  broken.counts.push_back('\x80');
  CHECK(ToProto(broken).counts() == broken.counts);
}

TEST_CASE("an empty histogram is left out and comes back empty") {
  IntervalDelta delta;
  delta.initiators.push_back({.initiator = 1, .kinds = {{.kind = OpKind::kFlush}}});
  const v1::IntervalDelta wire = ToProto(delta);
  CHECK_FALSE(wire.has_hiccup());
  CHECK_FALSE(wire.initiators(0).kinds(0).has_response());
  CHECK(*FromProto(wire) == delta);
  CHECK(*FromProto(ToProto(EncodedHistogram{})) == EncodedHistogram{});
}

TEST_CASE("a kind listed twice is refused: sums would count it twice") {
  v1::IntervalDelta delta;
  v1::InitiatorDelta* initiator = delta.add_initiators();
  initiator->add_kinds()->set_kind(v1::OP_KIND_READ);
  initiator->add_kinds()->set_kind(v1::OP_KIND_READ);
  CHECK(GetErrorInfo(FromProto(delta).status()).place == "initiators[0]: kinds");
  initiator->mutable_kinds(1)->set_due_in_window(true);
  CHECK(FromProto(delta).ok());
}

PhaseSpec Measure() {
  PhaseSpec spec;
  spec.key = {.run = "r", .step = 1, .phase = PhaseKind::kMeasure, .attempt = 0};
  spec.target = "t";
  spec.objects = {{.slot = 0, .name = "data", .size = 1 << 20}};
  spec.initiators = {0, 2};
  spec.initiator_count = 3;
  spec.initiator_count_max = 3;
  spec.initiators_sharing = 2;
  MeasureSpec measure;
  measure.workload.size = 1 << 20;
  measure.workload.load = {.streams = 2, .depth = 8};
  spec.work = measure;
  return spec;
}

TEST_CASE("Prepare refuses what contradicts itself, naming the place") {
  REQUIRE(FromProto(ToProto(Measure())).ok());
  const auto place = [](auto&& change) {
    v1::Prepare bad = ToProto(Measure());
    change(bad);
    return GetErrorInfo(FromProto(bad).status()).place;
  };
  CHECK(place([](v1::Prepare& p) { p.clear_work(); }) == "work");
  CHECK(place([](v1::Prepare& p) { p.set_initiators(1, 0); }) == "initiators[1]");
  CHECK(place([](v1::Prepare& p) { p.set_initiators(1, 3); }) == "initiators[1]");
  CHECK(place([](v1::Prepare& p) { p.set_initiator_count(9); }) == "initiator_count");
  CHECK(place([](v1::Prepare& p) { p.set_initiators_sharing(4); }) == "initiators_sharing");
  CHECK(place([](v1::Prepare& p) { p.set_initiators_sharing(1); }) == "initiators_sharing");
  CHECK(place([](v1::Prepare& p) { p.mutable_objects(0)->set_slot(1); }) == "objects[0]");
  CHECK(place([](v1::Prepare& p) { p.mutable_objects(0)->set_name("../x"); }) == "objects[0].name");
  CHECK(place([](v1::Prepare& p) { p.mutable_objects(0)->set_name(".."); }) == "objects[0].name");
  CHECK(place([](v1::Prepare& p) { p.mutable_key()->set_phase(v1::PHASE_KIND_FILL); }) == "measure");
  CHECK(place([](v1::Prepare& p) { p.mutable_measure()->set_load("16X"); }).find("measure.load") == 0);
  CHECK(place([](v1::Prepare& p) {
          p.mutable_measure()->mutable_workload()->set_read(std::nan(""));
        }).find("measure: workload.read") == 0);
  CHECK(place([](v1::Prepare& p) {
          p.mutable_measure()->mutable_workload()->set_rate(INFINITY);
        }).find("measure: workload.rate") == 0);
  CHECK(place([](v1::Prepare& p) {
          p.mutable_measure()->mutable_workload()->set_pacing(v1::PACING_FIXED);
        }).find("measure: workload.rate") == 0);
}

TEST_CASE("a plan may hold a step without work, an agent cannot be asked to do it") {
  CHECK(FromProto(ToProto(FillSpec{.block = 0, .depth = 0, .passes = 0})).ok());
  MeasureSpec nothing;
  nothing.window_intervals = 0;
  CHECK(FromProto(ToProto(nothing)).ok());
  const auto place = [](auto&& change) {
    v1::Prepare bad = ToProto(Measure());
    change(*bad.mutable_measure());
    return GetErrorInfo(FromProto(bad).status()).place;
  };
  CHECK(place([](v1::MeasureSpec& m) { m.set_total_size(0); }) == "measure.total_size");
  CHECK(place([](v1::MeasureSpec& m) { m.set_window_intervals(0); }) == "measure.window_intervals");
  CHECK(place([](v1::MeasureSpec& m) { m.mutable_workload()->set_block(0); }) == "measure.workload.block");
  PhaseSpec fill = Measure();
  fill.key.phase = PhaseKind::kFill;
  fill.work = FillSpec{.passes = 0};
  CHECK(GetErrorInfo(FromProto(ToProto(fill)).status()).place == "fill");
}

TEST_CASE("a fill must stay inside its objects") {
  PhaseSpec spec = Measure();
  spec.key.phase = PhaseKind::kFill;
  FillSpec fill;
  fill.extents = {{.slot = 0, .offset = 0, .length = 1 << 20}};
  spec.work = fill;
  REQUIRE(FromProto(ToProto(spec)).ok());
  v1::Prepare bad = ToProto(spec);
  bad.mutable_fill()->mutable_extents(0)->set_offset(UINT64_MAX);  // offset + length would wrap
  CHECK(GetErrorInfo(FromProto(bad).status()).place == "fill.extents[0]");
  bad.mutable_fill()->mutable_extents(0)->set_offset(0);
  bad.mutable_fill()->mutable_extents(0)->set_slot(1);
  CHECK(GetErrorInfo(FromProto(bad).status()).place == "fill.extents[0]");
}

TEST_CASE("enums left unspecified take the default their rule names") {
  v1::MeasureSpec spec;
  spec.mutable_workload()->set_block(4096);
  spec.set_total_size(4096);
  spec.set_load("1T1Q");
  spec.set_window_intervals(1);
  REQUIRE(FromProto(spec).ok());
  CHECK(FromProto(spec)->workload.pacing == Pacing::kClosed);
  spec.mutable_workload()->set_rate(10);
  spec.mutable_workload()->set_max_outstanding(1);
  spec.mutable_workload()->set_overload_after(1);
  CHECK(FromProto(spec)->workload.pacing == Pacing::kPoisson);
  CHECK(FromProto(spec)->workload.pattern == Pattern::kRandom);
}

}  // namespace
}  // namespace muster
