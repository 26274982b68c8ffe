// Lateness of the engine's pacing at 100 k/s Poisson against a bare loop that spins on the clock with the same
// schedule: interleaved pairs in one process, ratio of their 99th percentiles.
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
  std::vector<double> ratios;
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
    const double ratio = static_cast<double>(engine.At(0.99).value) / static_cast<double>(bare.At(0.99).value);
    ratios.push_back(ratio);
    fmt::print("engine: n={} p50={} ns p99={} ns   bare spin: n={} p50={} ns p99={} ns   ratio {:.3f}\n",
               engine.count(), engine.At(0.5).value, engine.At(0.99).value, bare.count(), bare.At(0.5).value,
               bare.At(0.99).value, ratio);
  }
  std::sort(ratios.begin(), ratios.end());
  fmt::print("pacer lateness p99, engine / bare spin, median of {} pairs: {:.3f}\n", pairs, ratios[ratios.size() / 2]);
  return 0;
}
