#include "controller/aggregate/sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace muster {
namespace {

std::string PlaceOf(const std::string& agent, uint32_t initiator, OpKind kind) {
  return fmt::format("agent {} initiator {} {}", agent, initiator, OpKindName(kind));
}

}  // namespace

void SumsCheck::Note(absl::Status status) {
  if (first_.ok()) first_ = std::move(status);
}

void SumsCheck::Note(const std::string& place, std::string_view what, Uint128 left, std::string_view left_name,
                     Uint128 right, std::string_view right_name) {
  if (left == right || !first_.ok()) return;
  Note(MakeError(absl::StatusCode::kDataLoss,
                 {.code = "SUMS_MISMATCH",
                  .place = place,
                  .message = fmt::format("{}: {} {}, {} {}", what, left_name, Uint128ToString(left), right_name,
                                         Uint128ToString(right)),
                  .next = "The result is refused; please report this with the run file."}));
}

void SumsCheck::AddDelta(const std::string& agent, const IntervalDelta& delta) {
  for (const InitiatorDelta& initiator : delta.initiators) {
    auto& kinds = delivered_[initiator.initiator];
    for (const KindDelta& kind : initiator.kinds) {
      const std::string place =
          first_.ok() ? fmt::format("{} interval {}", PlaceOf(agent, initiator.initiator, kind.kind), delta.interval)
                      : std::string();
      const uint64_t responses = kind.response.moments.count;
      Note(place, "response histogram", responses, "counts", kind.completed, "completed");
      if (kind.wait.moments.count != 0 || kind.service.moments.count != 0) {
        Note(place, "wait histogram", kind.wait.moments.count, "counts", kind.completed, "completed");
        Note(place, "service histogram", kind.service.moments.count, "counts", kind.completed, "completed");
      }
      Delivered& sum = kinds[static_cast<size_t>(kind.kind)];
      sum.completed += kind.completed;
      sum.bytes += kind.bytes;
      if (!initiator.held) sum.responses += responses;
      for (const ErrorDelta& error : kind.errors) {
        Note(place, "error histogram", error.response.moments.count, "counts", error.count, "errors");
        if (error.outcome != Outcome::kAborted) sum.failed += error.count;
      }
    }
  }
}

void SumsCheck::AddHeld(const HeldHistograms& held) {
  if (!held.kind.has_value()) return;
  delivered_[held.initiator][static_cast<size_t>(held.kind->kind)].responses += held.kind->response.moments.count;
}

void SumsCheck::CheckTotals(const std::string& agent, const std::vector<uint32_t>& carried, const PhaseTotals& totals) {
  std::map<uint32_t, const InitiatorTotals*> by_initiator;
  for (const InitiatorTotals& initiator : totals.initiators) by_initiator[initiator.initiator] = &initiator;
  static constexpr InitiatorTotals kNothing;
  for (uint32_t initiator : carried) {
    auto found = by_initiator.find(initiator);
    const InitiatorTotals& counted = found == by_initiator.end() ? kNothing : *found->second;
    const auto& sums = delivered_[initiator];
    for (int k = 0; k < kOpKinds; ++k) {
      const KindTotals& total = counted.kinds[k];
      const Delivered& sum = sums[k];
      const std::string place = PlaceOf(agent, initiator, static_cast<OpKind>(k));
      const Uint128 ended = Uint128{total.completed} + total.failed + total.aborted + total.abandoned;
      Note(place, "operations", total.submitted, "submitted", ended, "completed + failed + aborted + abandoned");
      Note(place, "operations", sum.completed, "sum over intervals", total.completed, "completed");
      Note(place, "histogram counts", sum.responses, "sum over intervals", total.completed, "completed");
      Note(place, "bytes", sum.bytes, "sum over intervals", total.bytes, "total");
      Note(place, "failed operations", sum.failed, "sum over intervals", total.failed, "total");
    }
  }
}

}  // namespace muster
