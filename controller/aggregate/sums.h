#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"

namespace muster {

// The independent book-keeping of a phase: what the deltas of a phase add up to, against the plain counters the
// workers kept. The first disagreement found is kept; it names agent, initiator, kind and both values.
class SumsCheck {
 public:
  // Within one delta: histogram counts = completed, error histogram counts = errors.
  void AddDelta(const std::string& agent, const IntervalDelta& delta);
  // Histograms that came after the deltas they belong to: only now they count as delivered.
  void AddHeld(const HeldHistograms& held);
  // Totals of one agent against everything it delivered.
  void CheckTotals(const std::string& agent, const std::vector<uint32_t>& carried, const PhaseTotals& totals);
  void Note(const std::string& place, std::string_view what, Uint128 left, std::string_view left_name, Uint128 right,
            std::string_view right_name);
  void Note(absl::Status status);
  // SUMS_MISMATCH, or OK.
  absl::Status status() const { return first_; }

 private:
  struct Delivered {
    uint64_t completed = 0, bytes = 0, responses = 0;
    uint64_t failed = 0;  // errors but those ended by an abort
  };
  std::map<uint32_t, std::array<Delivered, kOpKinds>> delivered_;
  absl::Status first_;
};

}  // namespace muster
