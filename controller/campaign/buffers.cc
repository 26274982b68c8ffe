#include <unistd.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/campaign/campaign.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t WholePages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::string Human(uint64_t bytes) {
  return FormatBytesHuman(static_cast<double>(bytes));
}

}  // namespace

uint64_t BufferBytes(const Step& step, uint32_t agents) {
  const Workload& w = step.measure.workload;
  const uint64_t outstanding =
      w.pacing == Pacing::kClosed ? uint64_t{w.load.streams} * w.load.depth : uint64_t{w.max_outstanding};
  // 4,096 initiators x 2^32 outstanding x 2^26 bytes pass 64 bits: then it is too much in any case.
  const auto carried = static_cast<unsigned __int128>((step.initiators + agents - 1) / agents);
  const auto measure = carried * outstanding * WholePages(w.block);
  const uint64_t fill = step.fill_passes > 0 ? step.fill.depth * WholePages(step.fill.block) : 0;
  return std::max(fill, measure > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(measure));
}

uint64_t DefaultBufferBound() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 4;
}

absl::Status CheckBuffers(const Plan& plan, uint32_t agents, uint64_t bound) {
  for (const Step& step : plan.steps) {
    if (!step.skip_reason.empty()) continue;
    const uint64_t bytes = BufferBytes(step, agents);
    if (bytes <= bound) continue;
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "BUFFER_MEMORY",
                      .place = "step " + step.name,
                      .message = fmt::format("{} of buffers are needed {}, a quarter of this machine's memory is {}",
                                             Human(bytes), agents == 1 ? "in one agent" : "in an agent", Human(bound)),
                      .next = "Use a smaller block, less depth or more agents."});
  }
  return absl::OkStatus();
}

}  // namespace muster
