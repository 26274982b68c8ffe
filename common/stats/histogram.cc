#include "common/stats/histogram.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/stats/consistency.h"

namespace muster {
namespace {

// Quantiles are taken to twelve decimals; rank arithmetic is then exact in 128-bit integers.
constexpr uint64_t kQuantileUnit = 1'000'000'000'000;

absl::Status CountOverflow() {
  return MakeError(absl::StatusCode::kOutOfRange, {.code = "HISTOGRAM_OVERFLOW",
                                                   .message = "merging histograms would overflow a counter",
                                                   .next = "Split the run into shorter steps."});
}

}  // namespace

Histogram::Histogram() : octaves_(hist::kOctaves) {}

std::vector<uint64_t>& Histogram::Octave(uint32_t octave) {
  std::vector<uint64_t>& counters = octaves_[octave];
  if (counters.empty()) counters.resize(hist::kOctave);
  return counters;
}

absl::Status Histogram::AddMoments(const Moments& added) {
  Moments merged = moments_;
  MUSTER_RETURN_IF_ERROR(merged.Merge(added));
  if (merged.count > kMaxHistogramCount) return CountOverflow();
  moments_ = merged;
  return absl::OkStatus();
}

void Histogram::Record(uint64_t value) {
  moments_.Add(value);
  if (value > hist::kHighest) {
    ++moments_.overflow;
    value = hist::kHighest;
  }
  const uint32_t index = hist::IndexOf(value);
  ++Octave(index / hist::kOctave)[index % hist::kOctave];
}

absl::Status Histogram::RecordMany(uint64_t value, uint64_t times) {
  if (times == 0) return absl::OkStatus();
  Moments added{.count = times, .min = value, .max = value, .overflow = value > hist::kHighest ? times : 0};
  if (__builtin_mul_overflow(value, times, &added.sum) ||
      __builtin_mul_overflow(static_cast<Uint128>(value) * value, Uint128{times}, &added.sum_squares)) {
    return CountOverflow();
  }
  MUSTER_RETURN_IF_ERROR(AddMoments(added));
  const uint32_t index = hist::IndexOf(std::min(value, hist::kHighest));
  Octave(index / hist::kOctave)[index % hist::kOctave] += times;
  return absl::OkStatus();
}

absl::Status Histogram::Merge(const Histogram& other) {
  MUSTER_RETURN_IF_ERROR(AddMoments(other.moments_));
  // No counter can wrap: each is at most its histogram's count, and the sum of both counts has been checked.
  for (uint32_t octave = 0; octave < hist::kOctaves; ++octave) {
    const std::vector<uint64_t>& from = other.octaves_[octave];
    if (from.empty()) continue;
    std::vector<uint64_t>& to = Octave(octave);
    for (uint32_t i = 0; i < hist::kOctave; ++i) to[i] += from[i];
  }
  return absl::OkStatus();
}

absl::Status Histogram::Merge(const EncodedHistogram& encoded) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Counter> counters, DecodeCounts(encoded.counts));
  MUSTER_RETURN_IF_ERROR(CheckConsistent(encoded.moments, counters));
  MUSTER_RETURN_IF_ERROR(AddMoments(encoded.moments));
  for (const Counter& counter : counters) {
    Octave(counter.index / hist::kOctave)[counter.index % hist::kOctave] += counter.count;
  }
  return absl::OkStatus();
}

absl::StatusOr<Histogram> Histogram::Decode(const EncodedHistogram& encoded) {
  Histogram histogram;
  MUSTER_RETURN_IF_ERROR(histogram.Merge(encoded));
  return histogram;
}

EncodedHistogram Histogram::Encode() const {
  CountsWriter writer;
  for (uint32_t octave = 0; octave < hist::kOctaves; ++octave) {
    const std::vector<uint64_t>& counters = octaves_[octave];
    for (uint32_t i = 0; i < counters.size(); ++i) {
      if (counters[i] != 0) writer.Add(octave * hist::kOctave + i, counters[i]);
    }
  }
  return {.moments = moments_, .counts = writer.Take()};
}

Quantile Histogram::At(double q) const {
  const uint64_t n = moments_.count;
  if (n == 0) return {};
  // A NaN counts as 1: an undefined question gets the worst value, never a flattering one.
  const double share = q >= 0 ? std::min(q, 1.0) : q < 0 ? 0.0 : 1.0;
  const auto units = static_cast<uint64_t>(std::llround(share * static_cast<double>(kQuantileUnit)));
  const auto rank = std::max<uint64_t>(
      1, static_cast<uint64_t>((static_cast<Uint128>(units) * n + kQuantileUnit - 1) / kQuantileUnit));
  Quantile quantile{.value = moments_.max,
                    .enough = static_cast<Uint128>(kQuantileUnit - units) * n >= Uint128{10} * kQuantileUnit};
  if (rank > n - moments_.overflow) return quantile;
  uint64_t seen = 0;
  for (uint32_t octave = 0; octave < hist::kOctaves; ++octave) {
    const std::vector<uint64_t>& counters = octaves_[octave];
    for (uint32_t i = 0; i < counters.size(); ++i) {
      seen += counters[i];
      if (seen >= rank) {
        quantile.value = std::clamp(hist::HighestOf(octave * hist::kOctave + i), moments_.min, moments_.max);
        return quantile;
      }
    }
  }
  return quantile;
}

void Histogram::ForEach(const std::function<void(uint32_t index, uint64_t count)>& visit) const {
  for (uint32_t octave = 0; octave < hist::kOctaves; ++octave) {
    const std::vector<uint64_t>& counters = octaves_[octave];
    for (uint32_t i = 0; i < counters.size(); ++i) {
      if (counters[i] != 0) visit(octave * hist::kOctave + i, counters[i]);
    }
  }
}

void Histogram::Clear() {
  for (std::vector<uint64_t>& counters : octaves_) std::fill(counters.begin(), counters.end(), 0);
  moments_ = Moments{};
}

bool Histogram::operator==(const Histogram& other) const {
  if (moments_ != other.moments_) return false;
  for (uint32_t octave = 0; octave < hist::kOctaves; ++octave) {
    const std::vector<uint64_t>& a = octaves_[octave];
    const std::vector<uint64_t>& b = other.octaves_[octave];
    const std::vector<uint64_t>& full = a.empty() ? b : a;
    const bool same = a.empty() || b.empty()
                          ? std::all_of(full.begin(), full.end(), [](uint64_t count) { return count == 0; })
                          : a == b;
    if (!same) return false;
  }
  return true;
}

}  // namespace muster
