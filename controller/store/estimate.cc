#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/aggregate/window.h"
#include "controller/store/run_store.h"

namespace muster {
namespace {

// Sizes as measured on run files of some 10,000 operations an initiator-interval; a histogram grows by a quarter for
// each doubling of that. What is wanted is the order of size before a step, not the byte.
constexpr uint64_t kHistogram = 3'000;        // counters of one histogram of an interval
constexpr uint64_t kWindowHistogram = 6'000;  // of a whole window
constexpr uint64_t kMoments = 70;             // moments of one histogram
constexpr uint64_t kRow = 150;                // the rest of a row and its index
constexpr uint64_t kStep = 8'000;             // result, checks, facts
constexpr uint64_t kFile = 200'000;           // empty tables, plan, agents
constexpr uint64_t kLog = 4 << 20;            // write-ahead log between two checkpoints
constexpr uint64_t kReserve = 64 << 20;       // CheckSpace leaves this free

}  // namespace

uint64_t EstimateStoreBytes(const Plan& plan) {
  const StoreOptions defaults;
  uint64_t kept = kFile;
  uint64_t counters = 0;
  uint64_t largest_raw = 0;
  for (const Step& step : plan.steps) {
    if (!step.skip_reason.empty()) continue;
    const MeasureSpec& measure = step.measure;
    const auto has = KindsOf(measure.workload);
    const auto kinds = static_cast<uint64_t>(std::count(has.begin(), has.end(), true));
    // Closed loop: response alone, as long as nothing waits. Open loop: response, wait, service.
    const uint64_t histograms = kinds * (measure.workload.pacing == Pacing::kClosed ? 1 : 3);
    const uint64_t intervals = uint64_t{measure.warmup_intervals} + measure.window_intervals;
    const uint64_t initiators = step.initiators;
    kept += kStep + intervals * (kRow + histograms * (kHistogram + kMoments));  // fleet
    kept += intervals * initiators * (kRow / 2 + histograms * kMoments);        // moments of initiators
    kept += (initiators + 1) * (kRow + (histograms + 1) * kWindowHistogram);    // window, pooled row too
    const uint64_t in_retention =
        plan.interval > 0 ? std::min(intervals, static_cast<uint64_t>(defaults.retention_age / plan.interval))
                          : intervals;
    counters += in_retention * initiators * histograms * kHistogram;
    largest_raw = std::max(largest_raw, intervals * initiators * (kRow + histograms * (kHistogram + kMoments)));
  }
  return kept + std::min(counters, defaults.retention_bytes) + largest_raw + kLog;
}

absl::Status CheckSpace(const std::string& dir, uint64_t need) {
  struct statvfs fs {};
  std::string at = dir.empty() ? "." : dir;
  // The folder of the runs may not be there yet: its file system is that of the nearest one that is.
  while (statvfs(at.c_str(), &fs) != 0) {
    if (errno != ENOENT) return ErrnoError(errno, "cannot read the free space", at);
    const size_t slash = at.rfind('/');
    at = slash == std::string::npos ? "." : slash == 0 ? "/" : at.substr(0, slash);
  }
  const uint64_t free = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize;
  if (free >= need && free - need >= kReserve) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.code = "STORE_FULL",
                    .place = dir,
                    .message = fmt::format("the run file may need {} and {} are to stay free, but only {} are",
                                           FormatBytesHuman(static_cast<double>(need)),
                                           FormatBytesHuman(static_cast<double>(kReserve)),
                                           FormatBytesHuman(static_cast<double>(free))),
                    .next = "Free space, or choose another place with --runs."});
}

}  // namespace muster
