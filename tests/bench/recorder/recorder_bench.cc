// Cost of recording one operation, and of what the reporter does with a recorder. Aim: 15 ns an operation for the full
// set of an open-loop operation (response, wait, service). Run alone: recorder_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "common/stats/paged_recorder.h"

namespace muster {
namespace {

constexpr size_t kValues = 1 << 14;

// Latencies as a device gives them: log-normal around 100 us; about 8 octaves, 3,000 distinct counters.
const std::vector<uint64_t>& Latencies() {
  static const std::vector<uint64_t> values = [] {
    Rng rng(1);
    std::vector<uint64_t> made(kValues);
    for (uint64_t& value : made) {
      double normal = -6;
      for (int i = 0; i < 12; ++i) normal += rng.Unit();
      value = static_cast<uint64_t>(100'000 * std::exp(0.5 * normal));
    }
    return made;
  }();
  return values;
}

// Counters in one flat array and nothing else: the floor.
void BM_Dense(benchmark::State& state) {
  const std::vector<uint64_t>& values = Latencies();
  std::vector<uint32_t> counters(hist::kCounters);
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    ++counters[hist::IndexOf(values[i++ & (kValues - 1)])];
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_Dense);

// Sums alone: the 64 x 64 bit product and the two-word addition are most of it.
void BM_Moments(benchmark::State& state) {
  const std::vector<uint64_t>& values = Latencies();
  Moments moments;
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    moments.Add(values[i++ & (kValues - 1)]);
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(&moments);
  }
}
BENCHMARK(BM_Moments);

// One paged recorder with its moments, as every closed-loop operation costs.
void BM_Paged(benchmark::State& state) {
  const std::vector<uint64_t>& values = Latencies();
  PagePool pool(hist::kOctaves);
  PagedHistogram paged(&pool);
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    paged.Record(values[i++ & (kValues - 1)]);
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(&paged);
  }
}
BENCHMARK(BM_Paged);

// The full set: response, wait and service of one open-loop operation. Aim: 15 ns.
void BM_PagedFullSet(benchmark::State& state) {
  const std::vector<uint64_t>& values = Latencies();
  PagePool pool(3 * hist::kOctaves);
  PagedHistogram response(&pool);
  PagedHistogram wait(&pool);
  PagedHistogram service(&pool);
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    const uint64_t waited = values[(i * 7) & (kValues - 1)] >> 4;
    const uint64_t served = values[i++ & (kValues - 1)];
    wait.Record(waited);
    service.Record(served);
    response.Record(waited + served);
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(&response);
    benchmark::DoNotOptimize(&wait);
    benchmark::DoNotOptimize(&service);
  }
}
BENCHMARK(BM_PagedFullSet);

// What the reporter does once an interval: encode and clear a recorder that holds `range` operations.
void BM_EncodeAndClear(benchmark::State& state) {
  const std::vector<uint64_t>& values = Latencies();
  PagePool pool(hist::kOctaves);
  PagedHistogram paged(&pool);
  size_t bytes = 0;
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    for (int64_t i = 0; i < state.range(0); ++i) paged.Record(values[static_cast<size_t>(i) & (kValues - 1)]);
    state.ResumeTiming();
    const EncodedHistogram encoded = paged.Encode();
    paged.Clear();
    bytes = encoded.counts.size();
  }
  state.counters["payload_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_EncodeAndClear)->Arg(1'000)->Arg(10'000);

// What the controller does with each: decode, check, merge.
void BM_DecodeAndMerge(benchmark::State& state) {
  const std::vector<uint64_t>& values = Latencies();
  Histogram one;
  for (int64_t i = 0; i < state.range(0); ++i) one.Record(values[static_cast<size_t>(i) & (kValues - 1)]);
  const EncodedHistogram encoded = one.Encode();
  Histogram fleet;
  for ([[maybe_unused]] auto _ : state) {
    if (!fleet.Merge(encoded).ok()) fleet.Clear();
  }
}
BENCHMARK(BM_DecodeAndMerge)->Arg(1'000)->Arg(10'000);

}  // namespace
}  // namespace muster
