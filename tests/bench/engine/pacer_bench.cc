// Lateness of the engine's pacing at 100 k/s Poisson against a bare loop that spins on the clock with the same
// schedule: interleaved pairs in one process, ratio of their 99th percentiles. Where a machine stops its guests the
// 99th percentile of either side is the length of a stop or not, by chance: the 97th is printed beside it.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "agent/engine/op_source.h"
#include "agent/engine/pacer.h"
#include "common/base/thread.h"
#include "fmt/format.h"
#include "tests/bench/engine/bench_run.h"

namespace {

using namespace muster;

constexpr double kRate = 100'000;

// Issues nothing: the best a loop on this machine can do.
Histogram BareSpin(const Workload& work, Nanos duration) {
  const Clock& clock = SteadyClock::Get();
  const Nanos t0 = clock.Now() + kMillisecond;
  Pacer pacer(Pacing::kPoisson, work.rate, StreamSeed(work.seed, SeedPurpose::kPacer, 0, 0), t0);
  Histogram lateness;
  Nanos now = clock.Now();
  while (now < t0 + duration) {
    while (pacer.Next() <= now) {  // all that are due by one look at the clock, as in any loop that batches
      lateness.Record(static_cast<uint64_t>(now - pacer.Next()));
      pacer.Advance();
    }
    now = clock.Now();
  }
  return lateness;
}

Histogram EnginePaced(const Workload& work, double seconds) {
  EngineTarget target{.target = {.name = "bench", .kind = NullTarget{}}, .objects = {{.fd = -1, .size = work.size}}};
  return bench::RunEngine(work, target, {.cpus = AllowedCpus(), .max_workers = 1, .may_spin = true}, seconds).lateness;
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 5;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  if (pairs < 1 || seconds < 1) {
    fmt::print(stderr, "usage: pacer_bench [PAIRS [SECONDS]]\n");
    return 2;
  }
  Workload work;
  work.pacing = Pacing::kPoisson;
  work.rate = kRate;
  work.size = 1 << 30;
  // Room for all that becomes due in a stop of 0.3 s: otherwise what finds no slot after a preemption would count as
  // wait for the target and not as lateness, and the engine would look better than it is.
  work.max_outstanding = 32'768;
  std::vector<double> ratios, ratios97;
  for (int pair = 0; pair < pairs; ++pair) {
    Histogram engine;
    Histogram bare;
    // Every other pair runs in the other order.
    for (const bool first : {pair % 2 == 0, pair % 2 != 0}) {
      if (first) {
        engine = EnginePaced(work, seconds);
      } else {
        bare = BareSpin(work, static_cast<Nanos>(seconds * 1e9));
      }
    }
    const auto at = [&](double q) { return std::pair(engine.At(q).value, bare.At(q).value); };
    const auto over = [](const auto& pair) {
      return static_cast<double>(pair.first) / static_cast<double>(pair.second);
    };
    const auto p50 = at(0.5), p97 = at(0.97), p99 = at(0.99);
    ratios97.push_back(over(p97));
    ratios.push_back(over(p99));
    fmt::print("engine / bare spin, {} operations: p50 {} / {} ns, p97 {} / {} ns, p99 {} / {} ns, ratio {:.3f}\n",
               engine.count(), p50.first, p50.second, p97.first, p97.second, p99.first, p99.second, ratios.back());
  }
  const auto tell = [&](const char* what, std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    fmt::print("pacer lateness {}, engine / bare spin, median of {} pairs: {:.3f} [{:.3f} .. {:.3f}]\n", what, pairs,
               values[values.size() / 2], values.front(), values.back());
  };
  tell("p97", ratios97);
  tell("p99", ratios);
  return 0;
}
