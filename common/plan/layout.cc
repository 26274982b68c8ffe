#include "common/plan/layout.h"

#include <algorithm>
#include <string>

namespace muster {
namespace {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Part `index` of `parts` of `blocks`: parts differ by at most one block and cover all of it.
Range PartOf(uint64_t blocks, uint64_t parts, uint64_t index) {
  const auto edge = [&](uint64_t i) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(blocks) * i / parts);
  };
  return {edge(index), edge(index + 1)};
}

// LUNs (or targets) that initiators are dealt over.
uint32_t LunsOf(const Target& target, uint32_t initiators_max) {
  const auto* iscsi = std::get_if<IscsiTarget>(&target.kind);
  return iscsi == nullptr ? 1 : std::max<uint32_t>(1, iscsi->Objects(initiators_max));
}

FileLayout LayoutOf(const Target& target) {
  const auto* file = std::get_if<FileTarget>(&target.kind);
  return file != nullptr ? file->files : FileLayout::kOne;
}

}  // namespace

std::vector<ObjectSpec> LayOutObjects(const Target& target, uint64_t size, uint64_t block, uint32_t initiators_max,
                                      uint32_t streams_max) {
  const auto whole = [&](uint64_t bytes) { return bytes / block * block; };
  std::vector<ObjectSpec> objects;
  switch (LayoutOf(target)) {
    case FileLayout::kOne: {
      const bool is_file = std::holds_alternative<FileTarget>(target.kind);
      const uint32_t luns = LunsOf(target, initiators_max);
      for (uint32_t i = 0; i < luns; ++i) {
        objects.push_back({.slot = i, .name = is_file ? "data" : "", .size = whole(size / luns)});
      }
      break;
    }
    case FileLayout::kPerInitiator:
      for (uint32_t i = 0; i < initiators_max; ++i) {
        objects.push_back({.slot = i, .name = "data." + std::to_string(i), .size = whole(size / initiators_max)});
      }
      break;
    case FileLayout::kPerStream: {
      const uint64_t count = static_cast<uint64_t>(initiators_max) * streams_max;
      for (uint64_t n = 0; n < count; ++n) {
        objects.push_back({.slot = static_cast<uint32_t>(n),
                           .name = "data." + std::to_string(n / streams_max) + "." + std::to_string(n % streams_max),
                           .size = whole(size / count)});
      }
      break;
    }
  }
  return objects;
}

StreamExtent ExtentOf(const Target& target, const std::vector<ObjectSpec>& objects, const Workload& workload,
                      uint32_t initiators, uint32_t initiators_max, uint32_t initiator, uint32_t stream) {
  const uint64_t block = workload.block;
  const uint64_t streams = workload.load.streams;
  StreamExtent extent;
  Range area;   // in blocks of the object
  Range slice;  // in blocks of the object
  const auto blocks_of = [&](size_t slot) { return slot < objects.size() ? objects[slot].size / block : 0; };

  switch (LayoutOf(target)) {
    case FileLayout::kOne: {
      // Those of one LUN share or partition it; with one object that is everybody.
      const uint32_t luns = LunsOf(target, initiators_max);
      extent.slot = initiator % luns;
      const uint64_t rank = initiator / luns;
      const auto sharing = [&](uint32_t count) { return (count - extent.slot + luns - 1) / luns; };
      const uint64_t blocks = blocks_of(extent.slot);
      if (workload.layout == Layout::kPartition) {
        area = PartOf(blocks, sharing(initiators_max), rank);
        const Range part = PartOf(area.end - area.begin, streams, stream);
        slice = {area.begin + part.begin, area.begin + part.end};
      } else {
        area = {0, blocks};
        slice = PartOf(blocks, sharing(initiators) * streams, rank * streams + stream);
      }
      break;
    }
    case FileLayout::kPerInitiator:
      extent.slot = initiator;
      area = {0, blocks_of(initiator)};
      slice = PartOf(area.end, streams, stream);
      break;
    case FileLayout::kPerStream: {
      const size_t streams_max = objects.size() / std::max<uint32_t>(1, initiators_max);
      extent.slot = static_cast<uint32_t>(initiator * streams_max + stream);
      area = {0, stream < streams_max ? blocks_of(extent.slot) : 0};
      slice = area;
      break;
    }
  }
  extent.area_offset = area.begin * block;
  extent.area_length = (area.end - area.begin) * block;
  extent.slice_offset = slice.begin * block;
  extent.slice_length = (slice.end - slice.begin) * block;
  return extent;
}

std::vector<std::vector<FillExtent>> DealFill(const std::vector<ObjectSpec>& objects, uint64_t block, uint32_t agents) {
  // One line of blocks through all objects; the last block of an object may be shorter.
  uint64_t total = 0;
  for (const ObjectSpec& object : objects) total += (object.size + block - 1) / block;

  std::vector<std::vector<FillExtent>> deal(agents);
  for (uint32_t agent = 0; agent < agents; ++agent) {
    const Range range = PartOf(total, agents, agent);
    uint64_t first = 0;  // block number of the object's beginning
    for (const ObjectSpec& object : objects) {
      const uint64_t count = (object.size + block - 1) / block;
      const uint64_t begin = std::max(range.begin, first);
      const uint64_t end = std::min(range.end, first + count);
      if (begin < end) {
        const uint64_t offset = (begin - first) * block;
        deal[agent].push_back(
            {.slot = object.slot, .offset = offset, .length = std::min((end - first) * block, object.size) - offset});
      }
      first += count;
    }
  }
  return deal;
}

std::vector<std::vector<uint32_t>> DealInitiators(uint32_t initiators, uint32_t agents) {
  std::vector<std::vector<uint32_t>> deal(agents);
  for (uint32_t i = 0; i < initiators; ++i) deal[i % agents].push_back(i);
  return deal;
}

}  // namespace muster
