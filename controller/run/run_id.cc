#include "controller/run/run_id.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "common/base/rng.h"

namespace muster {

std::string MakeRunId(const std::string& campaign, int64_t wall_micros) {
  // 65,536 runs of one process in one second differ: steps of an odd length meet every number before one comes again.
  static std::atomic<uint64_t> made{0};
  static const uint64_t first = [wall_micros] {
    uint64_t seed = static_cast<uint64_t>(wall_micros) ^ (static_cast<uint64_t>(getpid()) << 40);
    return SplitMix64(seed);
  }();
  const std::time_t seconds = wall_micros / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{}-{:04x}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, campaign.substr(0, 32), (first + ++made * 0x9E37) & 0xFFFF);
}

}  // namespace muster
