#include "tests/bench/iscsi/loop.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/base/rng.h"
#include "common/base/thread.h"
#include "fmt/format.h"

namespace muster::bench {
namespace {

[[noreturn]] void Usage() {
  fmt::print(stderr,
             "usage: PROGRAM --port N --target IQN [--host ADDRESS] [--lun N] [--qd N] [--block BYTES] [--seconds S]\n"
             "               [--sequential] [--write]\n");
  std::exit(2);
}

}  // namespace

void Die(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  std::exit(3);
}

IscsiLoopOptions ParseIscsiLoop(int argc, char** argv) {
  IscsiLoopOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--sequential") {
      options.random = false;
      continue;
    }
    if (arg == "--write") {
      options.write = true;
      continue;
    }
    if (++i == argc) Usage();
    const char* const value = argv[i];
    const double number = std::atof(value);
    if (arg == "--host") {
      options.host = value;
    } else if (arg == "--target") {
      options.target = value;
    } else if (arg == "--port" && number >= 1 && number <= 65535) {
      options.port = static_cast<uint16_t>(number);
    } else if (arg == "--lun" && number >= 0 && number < 16384) {
      options.lun = static_cast<uint16_t>(number);
    } else if (arg == "--qd" && number >= 1 && number <= 256) {
      options.depth = static_cast<uint32_t>(number);
    } else if (arg == "--block" && number >= 512 && number <= (8 << 20)) {
      options.block = static_cast<uint32_t>(number);
    } else if (arg == "--seconds" && number > 0 && number <= 3600) {
      options.seconds = number;
    } else {
      Usage();
    }
  }
  if (options.target.empty()) Usage();
  return options;
}

LoopBuffers::LoopBuffers(const IscsiLoopOptions& options)
    : memory_(
          static_cast<uint8_t*>(std::aligned_alloc(4096, (size_t{options.depth} * options.block + 4095) & ~4095ul))),
      block_(options.block) {
  std::memset(memory_, 0xa5, size_t{options.depth} * options.block);
}
LoopBuffers::~LoopBuffers() {
  std::free(memory_);
}

LoopOffsets::LoopOffsets(const IscsiLoopOptions& options, uint64_t size)
    : blocks_(size / options.block), block_(options.block), random_(options.random) {
  if (blocks_ == 0) Die("the LUN is smaller than a block");
}

uint64_t LoopOffsets::Next() {
  if (!random_) return (state_++ % blocks_) * block_;
  state_ = MixSeed(state_, 1);
  return (state_ % blocks_) * block_;
}

LoopMeter::LoopMeter() : counters_(hist::kCounters), begin_(SteadyClock::Get().Now()), cpu_begin_(ProcessCpuNanos()) {}

void LoopMeter::Record(Nanos service) {
  const auto value = static_cast<uint64_t>(service);
  ++counters_[hist::IndexOf(value < hist::kHighest ? value : hist::kHighest)];
  ++count_;
  sum_ += service;
}

void LoopMeter::Print(const std::string& loop) const {
  const double seconds = static_cast<double>(SteadyClock::Get().Now() - begin_) / 1e9;
  const double cpu = static_cast<double>(ProcessCpuNanos() - cpu_begin_);
  const auto count = static_cast<double>(count_ == 0 ? 1 : count_);
  const auto percentile = [&](double q) {
    uint64_t below = 0;
    for (uint32_t i = 0; i < hist::kCounters; ++i) {
      below += counters_[i];
      if (static_cast<double>(below) >= q * count) return static_cast<double>(hist::HighestOf(i)) / 1e3;
    }
    return 0.0;
  };
  fmt::print("loop={} iops={:.0f} cpu_us_per_op={:.2f} mean_us={:.1f} p50_us={:.1f} p99_us={:.1f}\n", loop,
             count / seconds, cpu / count / 1e3, static_cast<double>(sum_) / count / 1e3, percentile(0.5),
             percentile(0.99));
}

}  // namespace muster::bench
