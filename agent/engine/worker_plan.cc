#include "agent/engine/worker_plan.h"

#include <algorithm>

#include "agent/engine/pacer.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargestBlock = uint64_t{1} << 30;  // one system call moves at most 2 GiB - 4 KiB

absl::Status Refuse(std::string code, std::string place, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {std::move(code), std::move(place), std::move(message), std::move(next)});
}

absl::Status CheckBlock(uint64_t block, const PhaseSpec& spec, const EngineTarget& target) {
  if (block == 0 || block > kLargestBlock) {
    return Refuse("BLOCK_SIZE", fmt::format("target {}", spec.target),
                  fmt::format("block size {} is not usable", block), "Use a block size from 512 B to 1 GiB.");
  }
  if (target.objects.size() < spec.objects.size()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {"OBJECT_MISSING", fmt::format("target {}", spec.target),
                                                             fmt::format("{} objects are attached, the phase needs {}",
                                                                         target.objects.size(), spec.objects.size()),
                                                             "Attach the target again."});
  }
  for (const ObjectSpec& object : spec.objects) {
    const uint32_t logical = std::max<uint32_t>(1, target.objects[object.slot].logical_block);
    if (block % logical != 0) {
      return Refuse("BLOCK_ALIGNMENT", fmt::format("target {} object {}", spec.target, object.slot),
                    fmt::format("block size {} is not a multiple of the {} bytes the object needs", block, logical),
                    "Use a multiple of it, or buffered I/O.");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<WorkerPlan>> PlanFill(const PhaseSpec& spec, const FillSpec& fill,
                                                 const EngineTarget& target) {
  MUSTER_RETURN_IF_ERROR(CheckBlock(fill.block, spec, target));
  if (fill.depth == 0) return Refuse("LOAD_EMPTY", "fill", "depth is 0", "Use a depth of at least 1.");
  for (const FillExtent& extent : fill.extents) {
    if (extent.slot >= target.objects.size()) {
      return Refuse("OBJECT_MISSING", fmt::format("target {} object {}", spec.target, extent.slot),
                    "the fill names an object that is not attached", "Attach the target again.");
    }
  }
  WorkerPlan worker;
  worker.connections = target.connections > 0;
  if (worker.connections) {
    // A connection for each object written, as the initiator of the same number.
    for (const FillExtent& extent : fill.extents) {
      const bool known = std::any_of(worker.lanes.begin(), worker.lanes.end(),
                                     [&](const LanePlan& lane) { return lane.object == extent.slot; });
      if (known) continue;
      worker.lanes.push_back({.initiator = extent.slot, .connection = 0, .object = extent.slot, .slots = fill.depth});
    }
  }
  worker.slots = fill.depth;
  worker.slot_bytes = (fill.block + kPage - 1) / kPage * kPage;
  worker.groups.push_back({.initiator = spec.initiators.empty() ? 0 : spec.initiators.front(), .slots = fill.depth});
  if (worker.lanes.empty()) {
    worker.lanes = {{.initiator = worker.groups.front().initiator, .connection = 0, .slots = fill.depth}};
  }
  worker.shape.initiators = 1;
  worker.shape.kinds[static_cast<int>(OpKind::kWrite)] = true;
  worker.shape.kinds[static_cast<int>(OpKind::kFlush)] = true;
  return std::vector<WorkerPlan>{std::move(worker)};
}

// Every stream of this agent with its extent.
struct Placed {
  uint32_t initiator;
  uint32_t connection;
  StreamPlan plan;
};

absl::StatusOr<std::vector<Placed>> PlaceStreams(const PhaseSpec& spec, const Workload& work,
                                                 const EngineTarget& target) {
  const uint32_t count = std::max<uint32_t>(1, spec.initiator_count);
  const uint32_t count_max = std::max(count, spec.initiator_count_max);
  const double rate = StreamRate(work, spec.initiators_sharing != 0 ? spec.initiators_sharing : count);
  std::vector<Placed> placed;
  for (const uint32_t initiator : spec.initiators) {
    for (uint32_t stream = 0; stream < work.load.streams; ++stream) {
      const StreamExtent extent = ExtentOf(target.target, spec.objects, work, count, count_max, initiator, stream);
      const uint64_t room = work.pattern == Pattern::kRandom ? extent.area_length : extent.slice_length;
      const bool inside =
          extent.slot < target.objects.size() &&
          ((target.objects[extent.slot].fd < 0 && std::holds_alternative<NullTarget>(target.target.kind)) ||
           extent.area_offset + extent.area_length <= target.objects[extent.slot].size);
      if (room < work.block || !inside) {
        return Refuse("SET_TOO_SMALL", fmt::format("target {} initiator {} stream {}", spec.target, initiator, stream),
                      fmt::format("its part of the working set is {} bytes{}, less than one block of {}", room,
                                  inside ? "" : " beyond the object's end", work.block),
                      "Enlarge `size` or use fewer streams.");
      }
      // One connection at most for each stream.
      const uint64_t connections = std::clamp<uint32_t>(target.connections, 1, work.load.streams);
      placed.push_back({initiator,
                        static_cast<uint32_t>(uint64_t{stream} * connections / work.load.streams),
                        {.stream = stream, .extent = extent, .rate = rate}});
    }
  }
  return placed;
}

bool SameConnection(const Placed& a, const Placed& b) {
  return a.initiator == b.initiator && a.connection == b.connection;
}

// Where units begin in `placed`, and its end: a unit is a stream, or a connection with all its streams.
std::vector<size_t> UnitBounds(const std::vector<Placed>& placed, bool connections) {
  std::vector<size_t> bounds;
  for (size_t i = 0; i < placed.size(); ++i) {
    if (!connections || i == 0 || !SameConnection(placed[i - 1], placed[i])) bounds.push_back(i);
  }
  bounds.push_back(placed.size());
  return bounds;
}

// Lanes of a worker whose groups are complete.
void MakeLanes(WorkerPlan& worker, const std::vector<Placed>& placed, size_t first, bool connections, bool open,
               uint32_t depth) {
  if (!connections) {
    worker.lanes = {{.initiator = worker.groups.front().initiator, .connection = 0, .slots = worker.slots}};
    return;
  }
  worker.connections = true;
  size_t at = first;
  for (GroupPlan& group : worker.groups) {
    for (StreamPlan& stream : group.streams) {
      if (at == first || !SameConnection(placed[at - 1], placed[at])) {
        // In open loop any of the group's operations may be one of this connection's streams.
        worker.lanes.push_back({.initiator = group.initiator,
                                .connection = placed[at].connection,
                                .object = placed[at].plan.extent.slot,
                                .slots = open ? group.slots : 0});
      }
      if (!open) worker.lanes.back().slots += depth;
      stream.lane = static_cast<uint32_t>(worker.lanes.size() - 1);
      ++at;
    }
  }
}

// Contiguous runs of units for `count` workers.
std::vector<WorkerPlan> Deal(const std::vector<Placed>& placed, const std::vector<size_t>& bounds, uint32_t count,
                             const Workload& work, bool connections) {
  const bool open = work.pacing != Pacing::kClosed;
  const uint64_t streams = work.load.streams;
  const size_t units = bounds.size() - 1;
  std::vector<WorkerPlan> workers(count);
  for (uint32_t w = 0; w < count; ++w) {
    WorkerPlan& worker = workers[w];
    const size_t first = bounds[units * w / count];
    for (size_t i = first; i < bounds[units * (w + 1) / count]; ++i) {
      if (worker.groups.empty() || worker.groups.back().initiator != placed[i].initiator) {
        worker.groups.push_back({.initiator = placed[i].initiator});
      }
      worker.groups.back().streams.push_back(placed[i].plan);
    }
    for (GroupPlan& group : worker.groups) {
      const uint64_t begin = group.streams.front().stream;
      const uint64_t after = group.streams.back().stream + 1;
      group.slots =
          open ? static_cast<uint32_t>(work.max_outstanding * after / streams - work.max_outstanding * begin / streams)
               : static_cast<uint32_t>((after - begin) * work.load.depth);
      worker.slots += group.slots;
    }
    MakeLanes(worker, placed, first, connections, open, work.load.depth);
  }
  return workers;
}

}  // namespace

absl::StatusOr<std::vector<WorkerPlan>> PlanWorkers(const PhaseSpec& spec, const EngineTarget& target, uint32_t cpus) {
  if (const auto* fill = std::get_if<FillSpec>(&spec.work)) return PlanFill(spec, *fill, target);
  const Workload& work = std::get<MeasureSpec>(spec.work).workload;
  const bool open = work.pacing != Pacing::kClosed;
  MUSTER_RETURN_IF_ERROR(CheckBlock(work.block, spec, target));
  if (spec.initiators.empty() || work.load.streams == 0 || (open ? work.max_outstanding : work.load.depth) == 0 ||
      std::get<MeasureSpec>(spec.work).window_intervals == 0) {
    return Refuse("LOAD_EMPTY", fmt::format("target {}", spec.target),
                  "initiators, streams, depth and window must all be at least 1", "Raise the one that is 0.");
  }
  if (open && !(work.rate > 0)) {
    return Refuse("RATE_MISSING", fmt::format("target {}", spec.target), "an open loop needs a rate above 0",
                  "Set `rate`.");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Placed> placed, PlaceStreams(spec, work, target));

  const bool connections = target.connections > 0;
  const std::vector<size_t> bounds = UnitBounds(placed, connections);
  uint32_t count = static_cast<uint32_t>(std::min<size_t>(std::max<uint32_t>(1, cpus), bounds.size() - 1));
  std::vector<WorkerPlan> workers = Deal(placed, bounds, count, work, connections);
  const auto starved = [](const WorkerPlan& worker) {
    return std::any_of(worker.groups.begin(), worker.groups.end(), [](const GroupPlan& g) { return g.slots == 0; });
  };
  while (count > 1 && std::any_of(workers.begin(), workers.end(), starved)) {
    workers = Deal(placed, bounds, --count, work, connections);
  }

  for (WorkerPlan& worker : workers) {
    worker.slot_bytes = (work.block + kPage - 1) / kPage * kPage;
    worker.shape.initiators = static_cast<uint32_t>(worker.groups.size());
    worker.shape.open_loop = open;
    const bool writes = work.read < 1 && work.trim < 1;
    worker.shape.kinds[static_cast<int>(OpKind::kRead)] = work.read > 0 && work.trim < 1;
    worker.shape.kinds[static_cast<int>(OpKind::kWrite)] = writes;
    worker.shape.kinds[static_cast<int>(OpKind::kFlush)] = writes && work.flush_every > 0;
    worker.shape.kinds[static_cast<int>(OpKind::kTrim)] = work.trim > 0;
  }
  return workers;
}

uint64_t BufferBytes(const std::vector<WorkerPlan>& workers, const EngineTarget& target) {
  uint64_t bytes = 0;
  for (const WorkerPlan& worker : workers) {
    bytes += uint64_t{worker.slots} * worker.slot_bytes;
    if (worker.connections) bytes += worker.lanes.size() * target.connection_bytes;
  }
  return bytes;
}

std::string DescribeMapping(const std::vector<WorkerPlan>& workers) {
  std::string text;
  for (size_t w = 0; w < workers.size(); ++w) {
    text += fmt::format("{}{}:", w == 0 ? "" : "; ", w);
    for (const GroupPlan& group : workers[w].groups) {
      text += fmt::format(" initiator {}", group.initiator);
      if (!group.streams.empty()) {
        text += fmt::format(" streams {}-{}", group.streams.front().stream, group.streams.back().stream);
      }
    }
    if (workers[w].lanes.size() > 1) text += fmt::format(", {} connections", workers[w].lanes.size());
  }
  return text;
}

}  // namespace muster
