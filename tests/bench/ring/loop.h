#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/stats/histogram.h"

// What the loops of this folder share: arguments, file, buffers, recording, report.
//
// Each loop is closed, 4 KiB random reads with replacement, and does per operation only what cannot be left out: draw
// an offset, stamp (issued before the submit call, done after the reap, one stamp a batch), record service time in a
// dense HdrHistogram array. It keeps no kinds, initiators, intervals, moments or op sources: it is a limit, not a tool.
namespace muster::bench {

inline constexpr uint32_t kBlock = 4096;

struct LoopOptions {
  std::string file;
  uint64_t size = 0;  // bytes from the start that are read; 0: the whole file
  uint32_t depth = 32;
  double seconds = 3;
  bool direct = false;
  bool pread = false;  // bare_ring: one pread at a time instead of a ring
  bool null = false;   // backend_loop: the null backend, no file
};
// Ends the process with exit code 2 and the usage when the arguments are wrong.
LoopOptions ParseLoopOptions(int argc, char** argv);

// An opened file and page-aligned buffers, one a slot. Ends the process with exit code 3 on failure.
class LoopFile {
 public:
  explicit LoopFile(const LoopOptions& options);
  ~LoopFile();
  LoopFile(const LoopFile&) = delete;
  LoopFile& operator=(const LoopFile&) = delete;
  int fd() const { return fd_; }
  uint64_t size() const { return size_; }
  uint8_t* buffer(uint32_t slot) const { return pool_ + size_t{slot} * kBlock; }
  uint8_t* pool() const { return pool_; }
  size_t pool_bytes() const { return pool_bytes_; }

 private:
  int fd_ = -1;
  uint64_t size_ = 0;
  uint8_t* pool_ = nullptr;
  size_t pool_bytes_ = 0;
};

// The index computation and one increment an operation. Counts and the sum are all that is needed for the report.
class DenseRecorder {
 public:
  DenseRecorder() : counters_(hist::kCounters) {}
  void Record(Nanos service) {
    const auto value = static_cast<uint64_t>(service);
    ++counters_[hist::IndexOf(value < hist::kHighest ? value : hist::kHighest)];
    sum_ += value;
  }
  uint64_t count() const;
  double Mean() const;
  uint64_t Percentile(double q) const;

 private:
  std::vector<uint64_t> counters_;
  uint64_t sum_ = 0;
};

// Whole-process CPU and wall time from construction to Print.
class LoopReport {
 public:
  LoopReport();
  // One line of name=value: loop, iops, cpu_s, iops_per_cpu_s, mean_ns, p50_ns, p99_ns, batches, ops_per_batch.
  void Print(const std::string& loop, const DenseRecorder& recorder, uint64_t batches) const;

 private:
  Nanos begin_;
  int64_t cpu_begin_;
};

// Prints and ends the process with exit code 3.
[[noreturn]] void Die(const std::string& what, int err);

}  // namespace muster::bench
