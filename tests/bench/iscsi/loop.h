#pragma once
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/stats/histogram.h"

// What the loops of this folder share: arguments, buffers, report.
//
// Each loop is closed, reads one LUN at random or in order, and does per operation only what cannot be left out: an
// offset, two stamps, one counter of a histogram.
namespace muster::bench {

struct IscsiLoopOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 3260;
  std::string target;
  uint16_t lun = 1;
  uint32_t depth = 32;
  uint32_t block = 4096;
  double seconds = 3;
  bool random = true;
  bool write = false;
};
// Ends the process with exit code 2 and the usage when the arguments are wrong.
IscsiLoopOptions ParseIscsiLoop(int argc, char** argv);

// Page-aligned memory, one buffer a slot.
class LoopBuffers {
 public:
  explicit LoopBuffers(const IscsiLoopOptions& options);
  ~LoopBuffers();
  LoopBuffers(const LoopBuffers&) = delete;
  LoopBuffers& operator=(const LoopBuffers&) = delete;
  uint8_t* operator[](uint32_t slot) const { return memory_ + size_t{slot} * block_; }

 private:
  uint8_t* memory_;
  const uint32_t block_;
};

// Offsets of whole blocks below `size`.
class LoopOffsets {
 public:
  LoopOffsets(const IscsiLoopOptions& options, uint64_t size);
  uint64_t Next();

 private:
  const uint64_t blocks_;
  const uint32_t block_;
  const bool random_;
  uint64_t state_ = 1;
};

// Service times of a run from construction to Print, with the CPU of the whole process.
class LoopMeter {
 public:
  LoopMeter();
  void Record(Nanos service);
  // One line of name=value: loop, iops, cpu_us_per_op, mean_us, p50_us, p99_us.
  void Print(const std::string& loop) const;

 private:
  std::vector<uint64_t> counters_;
  uint64_t count_ = 0;
  Nanos sum_ = 0;
  Nanos begin_;
  int64_t cpu_begin_;
};

// Prints and ends the process with exit code 3.
[[noreturn]] void Die(const std::string& what);

}  // namespace muster::bench
