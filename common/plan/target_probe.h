#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

// What an iSCSI target tells whoever logs in and only reads: filled in by an agent, shown by `muster targets probe`.
namespace muster {

inline constexpr size_t kMostProbedLuns = 256;

// Sizes in bytes; 0 and nullopt: not told.
struct ProbedLun {
  uint32_t lun = 0;
  bool used = false;  // named by who asks
  std::string vendor, product, revision;
  std::string serial;              // VPD 80h
  std::vector<std::string> wwids;  // VPD 83h
  uint64_t size = 0;
  uint32_t block = 0;  // 0 also for what is no disk
  uint64_t physical_block = 0;
  std::optional<bool> write_protected, write_cache, fua;
  bool unmap = false, reads_zeroes = false;
  uint64_t max_unmap = 0;
  uint32_t max_unmap_ranges = 0;
  uint64_t unmap_granularity = 0;
  uint64_t max_transfer = 0, optimal_transfer = 0;
  std::string found;     // "blank", "muster label, generation 3", "ext4 file system ..."
  absl::Status refusal;  // of the write guard, or why it could not be looked at; OK: it may be written
};

struct TargetProbe {
  std::vector<std::pair<std::string, std::string>> session;  // portal, names, ISID, negotiated keys, command window
  uint32_t luns_reported = 0;                                // all of them
  std::vector<ProbedLun> luns;                               // ascending, at most kMostProbedLuns
};

}  // namespace muster
