// The whole engine in one process, without controller: to be held against the bare loops of tests/bench/ring and fio.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/thread.h"
#include "fmt/format.h"
#include "tests/bench/engine/bench_run.h"

namespace {

using namespace muster;

struct Options {
  std::string file;
  uint64_t size = 0;
  Workload workload;
  double seconds = 3;
  uint32_t workers = 1;
  bool direct = false;
};

[[noreturn]] void Usage(std::string_view why) {
  fmt::print(stderr,
             "{}\nusage: engine_bench --null | --file PATH [--direct] [--size BYTES]\n"
             "                    [--qd N] [--streams N] [--block BYTES] [--read PERCENT] [--seconds S] [--workers N]\n"
             "With --read below 100 the file's content is lost.\n",
             why);
  std::exit(2);
}

double Number(std::string_view name, const char* text, double lowest, double highest) {
  char* end = nullptr;
  const double value = text == nullptr ? lowest - 1 : std::strtod(text, &end);
  if (text == nullptr || *text == 0 || *end != 0 || !(value >= lowest) || !(value <= highest)) {
    Usage(fmt::format("{} needs a number in {}..{}", name, lowest, highest));
  }
  return value;
}

Options Parse(int argc, char** argv) {
  Options options;
  options.workload.load = {.streams = 1, .depth = 32};
  bool null = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--null" || arg == "--direct") {
      (arg == "--null" ? null : options.direct) = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (arg == "--file" && value != nullptr) {
      options.file = value;
    } else if (arg == "--size") {
      options.size = static_cast<uint64_t>(Number(arg, value, 4096, 1e18));
    } else if (arg == "--qd") {
      options.workload.load.depth = static_cast<uint32_t>(Number(arg, value, 1, 4096));
    } else if (arg == "--streams") {
      options.workload.load.streams = static_cast<uint32_t>(Number(arg, value, 1, 1024));
    } else if (arg == "--block") {
      options.workload.block = static_cast<uint64_t>(Number(arg, value, 512, 1 << 30));
    } else if (arg == "--read") {
      options.workload.read = Number(arg, value, 0, 100) / 100;
    } else if (arg == "--seconds") {
      options.seconds = Number(arg, value, 1, 3600);
    } else if (arg == "--workers") {
      options.workers = static_cast<uint32_t>(Number(arg, value, 1, 1024));
    } else {
      Usage(fmt::format("unknown argument {}", arg));
    }
  }
  if (null != options.file.empty()) Usage("either --null or --file");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = Parse(argc, argv);
  EngineTarget target{.target = {.name = "bench", .kind = NullTarget{}}, .objects = {}};
  options.workload.size = options.size != 0 ? options.size : uint64_t{1} << 30;
  int fd = -1;
  if (options.file.empty()) {
    target.objects = {{.fd = -1, .size = options.workload.size}};
  } else {
    fd = open(options.file.c_str(),
              (options.workload.read < 1 ? O_RDWR : O_RDONLY) | O_CLOEXEC | (options.direct ? O_DIRECT : 0));
    struct stat info {};
    if (fd < 0 || fstat(fd, &info) != 0) {
      fmt::print(stderr, "{}: {}\n", options.file, strerror(errno));
      return 3;
    }
    if (options.size == 0) options.workload.size = static_cast<uint64_t>(info.st_size);
    target.target.kind = FileTarget{.dir = "/", .direct = options.direct};
    target.objects = {{.fd = fd, .size = static_cast<uint64_t>(info.st_size)}};
  }
  const bench::RunFigures figures = bench::RunEngine(
      options.workload, target, {.cpus = AllowedCpus(), .max_workers = options.workers}, options.seconds);
  const double iops = static_cast<double>(figures.operations) / figures.seconds;
  fmt::print(
      "iops={:.0f} cpu_s={:.3f} iops_per_cpu_s={:.0f} mean_ns={:.0f} p50_ns={} p99_ns={} p999_ns={} stamp_error_ns={} "
      "failed={} seconds={:.3f}\n",
      iops, figures.cpu_seconds, static_cast<double>(figures.operations) / figures.cpu_seconds,
      figures.response.moments().Mean(), figures.response.At(0.5).value, figures.response.At(0.99).value,
      figures.response.At(0.999).value, figures.stamp_error, figures.failed, figures.seconds);
  if (fd >= 0) close(fd);
  return figures.failed == 0 ? 0 : 1;
}
