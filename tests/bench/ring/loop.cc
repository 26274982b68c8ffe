#include "tests/bench/ring/loop.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/base/thread.h"
#include "fmt/format.h"

namespace muster::bench {
namespace {

constexpr std::string_view kUsage =
    "usage: PROGRAM --file PATH [--size BYTES] [--qd N] [--seconds S] [--direct] [--pread]\n"
    "       backend_loop --null [--qd N] [--seconds S]\n";

[[noreturn]] void Usage(std::string_view why) {
  fmt::print(stderr, "{}\n{}", why, kUsage);
  std::exit(2);
}

template <typename T>
T Number(std::string_view name, const char* text, T lowest, T highest) {
  char* end = nullptr;
  const double value = text == nullptr ? -1 : std::strtod(text, &end);
  if (text == nullptr || *text == 0 || *end != 0 || !(value >= static_cast<double>(lowest)) ||
      !(value <= static_cast<double>(highest))) {
    Usage(fmt::format("{} needs a number in {}..{}", name, lowest, highest));
  }
  return static_cast<T>(value);
}

}  // namespace

void Die(const std::string& what, int err) {
  fmt::print(stderr, "{}: {}\n", what, strerrordesc_np(err));
  std::exit(3);
}

LoopOptions ParseLoopOptions(int argc, char** argv) {
  LoopOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--direct") {
      options.direct = true;
    } else if (arg == "--pread") {
      options.pread = true;
    } else if (arg == "--null") {
      options.null = true;
    } else {
      const char* value = i + 1 < argc ? argv[++i] : nullptr;
      if (arg == "--file" && value != nullptr) {
        options.file = value;
      } else if (arg == "--size") {
        options.size = Number<uint64_t>(arg, value, kBlock, uint64_t{1} << 50);
      } else if (arg == "--qd") {
        options.depth = Number<uint32_t>(arg, value, 1, 4096);
      } else if (arg == "--seconds") {
        options.seconds = Number<double>(arg, value, 0.01, 3600);
      } else {
        Usage(fmt::format("unknown argument {}", arg));
      }
    }
  }
  if (options.file.empty() && !options.null) Usage("--file is missing");
  return options;
}

LoopFile::LoopFile(const LoopOptions& options) {
  pool_bytes_ = size_t{options.depth} * kBlock;
  void* memory = mmap(nullptr, pool_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) Die("mmap", errno);
  pool_ = static_cast<uint8_t*>(memory);
  if (options.null) {
    size_ = 1 << 30;
    return;
  }
  fd_ = open(options.file.c_str(), O_RDONLY | O_CLOEXEC | (options.direct ? O_DIRECT : 0));
  if (fd_ < 0) Die("open " + options.file, errno);
  struct stat st {};
  if (fstat(fd_, &st) != 0) Die("stat " + options.file, errno);
  size_ = static_cast<uint64_t>(st.st_size);
  if (S_ISBLK(st.st_mode) && ioctl(fd_, BLKGETSIZE64, &size_) != 0) Die("size of " + options.file, errno);
  if (options.size != 0 && options.size < size_) size_ = options.size;
  if (size_ < kBlock) Die("less than a block in " + options.file, EINVAL);
}

LoopFile::~LoopFile() {
  if (fd_ >= 0) close(fd_);
  munmap(pool_, pool_bytes_);
}

uint64_t DenseRecorder::count() const {
  uint64_t count = 0;
  for (const uint64_t c : counters_) count += c;
  return count;
}

double DenseRecorder::Mean() const {
  const uint64_t n = count();
  return n == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(n);
}

uint64_t DenseRecorder::Percentile(double q) const {
  const auto n = static_cast<double>(count());
  uint64_t below = 0;
  for (uint32_t i = 0; i < hist::kCounters; ++i) {
    below += counters_[i];
    if (below > 0 && static_cast<double>(below) >= q * n) return hist::HighestOf(i);
  }
  return 0;
}

LoopReport::LoopReport() : begin_(SteadyClock::Get().Now()), cpu_begin_(ProcessCpuNanos()) {}

void LoopReport::Print(const std::string& loop, const DenseRecorder& recorder, uint64_t batches) const {
  const double seconds = static_cast<double>(SteadyClock::Get().Now() - begin_) / 1e9;
  const double cpu = static_cast<double>(ProcessCpuNanos() - cpu_begin_) / 1e9;
  const auto count = static_cast<double>(recorder.count());
  fmt::print(
      "loop={} iops={:.0f} cpu_s={:.3f} iops_per_cpu_s={:.0f} mean_ns={:.0f} p50_ns={} p99_ns={} batches={} "
      "ops_per_batch={:.2f}\n",
      loop, count / seconds, cpu, count / cpu, recorder.Mean(), recorder.Percentile(0.5), recorder.Percentile(0.99),
      batches, count / static_cast<double>(batches == 0 ? 1 : batches));
}

}  // namespace muster::bench
