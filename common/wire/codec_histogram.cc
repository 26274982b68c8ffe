#include <fmt/format.h>

#include "common/base/status.h"
#include "common/stats/counts_pack.h"
#include "common/wire/codec.h"
#include "common/wire/invalid.h"

namespace muster {
v1::Uint128 ToProto(Uint128 value) {
  v1::Uint128 out;
  out.set_high(static_cast<uint64_t>(value >> 64));
  out.set_low(static_cast<uint64_t>(value));
  return out;
}

Uint128 FromProto(const v1::Uint128& value) {
  return (static_cast<Uint128>(value.high()) << 64) | value.low();
}

v1::Histogram ToProto(const EncodedHistogram& histogram) {
  const Moments& moments = histogram.moments;
  v1::Histogram out;
  out.set_digits(hist::kDigits);
  out.set_lowest(1);
  out.set_highest(hist::kHighest);
  out.set_count(moments.count);
  out.set_sum(moments.sum);
  if (moments.sum_squares != 0) *out.mutable_sum_squares() = ToProto(moments.sum_squares);
  out.set_min(moments.count == 0 ? 0 : moments.min);
  out.set_max(moments.max);
  out.set_overflow(moments.overflow);
  if (histogram.counts.size() >= kPackCountsFrom) {
    // A payload that cannot be read travels as it is: who merges it says what is wrong.
    auto packed = PackCounts(histogram.counts);
    if (packed.ok() && packed->size() < histogram.counts.size()) {
      out.set_packed(*std::move(packed));
      return out;
    }
  }
  out.set_counts(histogram.counts);
  return out;
}

// Unpacking is bounded by the layout. The counters themselves are decoded and compared with the moments where
// histograms are merged (Histogram::Merge): doing it here too would decode each payload twice.
absl::StatusOr<EncodedHistogram> FromProto(const v1::Histogram& histogram) {
  if (histogram.digits() != hist::kDigits || histogram.lowest() != 1 || histogram.highest() != hist::kHighest) {
    return InvalidField(
        "histogram",
        fmt::format("layout {} digits, {}..{} ns is not {} digits, 1..{} ns; unlike layouts do not merge",
                    histogram.digits(), histogram.lowest(), histogram.highest(), hist::kDigits, hist::kHighest));
  }
  if (histogram.counts().size() > kMaxCountsPayload) {
    return InvalidField("histogram.counts",
                        fmt::format("{} bytes exceed the layout's {}", histogram.counts().size(), kMaxCountsPayload));
  }
  if (!histogram.counts().empty() && !histogram.packed().empty()) {
    return InvalidField("histogram.packed", "counters are there twice, plain and packed");
  }
  EncodedHistogram out;
  Moments& moments = out.moments;
  moments.count = histogram.count();
  moments.sum = histogram.sum();
  moments.sum_squares = FromProto(histogram.sum_squares());
  moments.max = histogram.max();
  moments.overflow = histogram.overflow();
  if (moments.count == 0) {
    if (moments.sum != 0 || moments.sum_squares != 0 || histogram.min() != 0 || moments.max != 0 ||
        moments.overflow != 0 || !histogram.counts().empty() || !histogram.packed().empty()) {
      return InvalidField("histogram.count", "a histogram of no values carries sums or counters");
    }
    return out;
  }
  moments.min = histogram.min();
  const Uint128 count = moments.count;
  if (moments.min > moments.max || moments.overflow > moments.count || count * moments.min > moments.sum ||
      moments.sum > count * moments.max) {
    return InvalidField(
        "histogram", fmt::format("count {}, sum {}, min {}, max {}, overflow {} contradict each other", moments.count,
                                 moments.sum, moments.min, moments.max, moments.overflow));
  }
  if (histogram.packed().empty()) {
    out.counts = histogram.counts();
    return out;
  }
  auto counts = UnpackCounts(histogram.packed());
  if (!counts.ok()) return AtPlace(counts.status(), "histogram.packed");
  out.counts = *std::move(counts);
  return out;
}

}  // namespace muster
