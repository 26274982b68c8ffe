// What the codec makes must pass the validation that the other side runs on everything it receives.
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"

namespace muster {
namespace {

void CheckValid(const google::protobuf::Message& message) {
  const absl::Status status = ValidateMessage(message);
  INFO(FormatError(status));
  CHECK(status.ok());
}

TEST_CASE("encoded messages pass validation") {
  CheckValid(ToProto(MakeError(absl::StatusCode::kInternal, {std::string(100, 'C'), std::string(9'000, 'p'),
                                                             std::string(9'000, 'm'), std::string(9'000, '\xff')})));
  IntervalDelta delta;
  delta.initiators.push_back({.initiator = 3, .kinds = {{.kind = OpKind::kWrite}}});
  delta.initiators[0].kinds[0].errors.push_back({.outcome = Outcome::kIo, .native_code = 5, .count = 1});
  Histogram histogram;
  histogram.Record(7);
  delta.initiators[0].kinds[0].response = histogram.Encode();
  CheckValid(ToProto(delta));
  PhaseTotals totals;
  totals.initiators.push_back({.initiator = 1});
  totals.initiators[0].kinds[0].submitted = 1;
  totals.stragglers.push_back({.initiator = 1, .kind = OpKind::kFlush, .age_at_end = 1, .final_age = 2, .ended = true});
  CheckValid(ToProto(totals));
}

TEST_CASE("an encoded Prepare passes validation for each pacing") {
  for (const Pacing pacing : {Pacing::kClosed, Pacing::kFixed, Pacing::kPoisson}) {
    PhaseSpec spec;
    spec.key = {.run = "r", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
    spec.target = "t";
    spec.objects = {{.slot = 0, .name = "", .size = 1 << 20}};
    spec.initiators = {0};
    spec.initiator_count = spec.initiator_count_max = 1;
    MeasureSpec measure;
    measure.workload.size = 1 << 20;
    measure.workload.pacing = pacing;
    if (pacing != Pacing::kClosed) measure.workload.rate = 100;
    spec.work = measure;
    v1::Prepare prepare = ToProto(spec);
    prepare.set_deadline_ns(kSecond);
    CheckValid(prepare);
  }
}

TEST_CASE("encoded targets pass validation") {
  CheckValid(ToProto(Target{"n", NullTarget{.latency = 100, .stalls = {{.at = 0, .duration = kSecond}}}}));
  CheckValid(ToProto(Target{"f", FileTarget{.dir = "/var/tmp/x"}}));
  CheckValid(ToProto(Target{"b", BlockTarget{.device = "/dev/loop0", .overwrite = Overwrite{"id", 4096}}}));
}

}  // namespace
}  // namespace muster
