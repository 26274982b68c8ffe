#include "controller/run/run_id.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "common/base/rng.h"

namespace muster {

std::string MakeRunId(const std::string& campaign, int64_t wall_micros) {
  static std::atomic<uint64_t> made{0};  // two of one microsecond differ
  const std::time_t seconds = wall_micros / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  uint64_t seed = static_cast<uint64_t>(wall_micros) ^ (static_cast<uint64_t>(getpid()) << 40) ^ (++made << 20);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{}-{:04x}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, campaign.substr(0, 32), SplitMix64(seed) & 0xFFFF);
}

}  // namespace muster
