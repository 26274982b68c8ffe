#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "controller/aggregate/figures.h"
#include "controller/store/run_store.h"

namespace muster {

// Between the run file's blobs and plain structs; lossless in both directions but for text
// that is not UTF-8 (see utf8.h). Decoders return RUN_DAMAGED. The
// messages are in proto/muster/v1/result.proto.

std::string EncodePlan(const Plan& plan);
// What is needed of it again: steps, interval, op_timeout.
absl::StatusOr<Plan> DecodePlanSteps(std::string_view bytes);
std::string EncodeAgent(const RunAgent& agent);
absl::StatusOr<RunAgent> DecodeAgent(std::string_view bytes);

// A result without its initiators' groups: those are records of their own, so that no blob grows with the fleet.
std::string EncodeResult(const StepResult& result);
absl::StatusOr<StepResult> DecodeResult(std::string_view bytes);
std::string EncodeGroup(const GroupFigures& group);
absl::StatusOr<GroupFigures> DecodeGroup(std::string_view bytes);

// An interval in three: what is kept of the fleet, moments and counters of the initiators, and the counters of their
// histograms, which `retention` ends.
struct IntervalBlobs {
  std::string fleet, moments, counts;
};
IntervalBlobs EncodeInterval(const FleetInterval& interval);
// With `counts` empty the initiators' histograms have moments and no counters.
absl::StatusOr<FleetInterval> DecodeInterval(std::string_view fleet, std::string_view moments, std::string_view counts);

// RUN_DAMAGED without a place; the reader adds it.
absl::Status DamagedRecord(std::string_view what);

}  // namespace muster
