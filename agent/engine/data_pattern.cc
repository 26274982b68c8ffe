#include "agent/engine/data_pattern.h"

#include <cstring>

#include "common/base/rng.h"

namespace muster {
namespace {

constexpr int kLanes = 8;
constexpr size_t kStep = kLanes * sizeof(uint64_t);  // bytes made at once

// The loop is a macro because GCC lowers vector code to the instruction set of the function it is written in, before
// it inlines: a shared inline function would run at SSE2 speed everywhere. `N` vectors of type `V` carry the lanes.
#define MUSTER_GENERATE(V, N)                          \
  V a[N];                                              \
  V b[N];                                              \
  std::memcpy(a, words, kStep);                        \
  std::memcpy(b, words + kLanes, kStep);               \
  for (size_t done = 0; done < bytes; done += kStep) { \
    V value[N];                                        \
    for (int i = 0; i < (N); ++i) {                    \
      V x = a[i];                                      \
      const V y = b[i];                                \
      a[i] = y;                                        \
      x ^= x << 23;                                    \
      b[i] = x ^ y ^ (x >> 17) ^ (y >> 26);            \
      value[i] = b[i] + y;                             \
    }                                                  \
    if (bytes - done >= kStep) {                       \
      std::memcpy(out + done, value, kStep);           \
    } else {                                           \
      std::memcpy(out + done, value, bytes - done);    \
    }                                                  \
  }

using Words128 = uint64_t __attribute__((vector_size(16)));
using Words256 = uint64_t __attribute__((vector_size(32)));
using Words512 = uint64_t __attribute__((vector_size(64)));

void GeneratePlain(uint8_t* out, size_t bytes, const uint64_t* words) {
  MUSTER_GENERATE(Words128, 4)
}

using Generator = void (*)(uint8_t*, size_t, const uint64_t*);

#if defined(__x86_64__)
[[gnu::target("avx2")]] void GenerateAvx2(uint8_t* out, size_t bytes, const uint64_t* words) {
  MUSTER_GENERATE(Words256, 2)
}
[[gnu::target("avx512f")]] void GenerateAvx512(uint8_t* out, size_t bytes,
                                               const uint64_t* words){MUSTER_GENERATE(Words512, 1)} Generator Choose() {
  if (__builtin_cpu_supports("avx512f") != 0) return GenerateAvx512;
  if (__builtin_cpu_supports("avx2") != 0) return GenerateAvx2;
  return GeneratePlain;
}
#else
Generator Choose() {
  return GeneratePlain;
}
#endif

// The starting words of all lanes.
struct Start {
  Start(uint64_t seed, uint64_t number) {
    uint64_t state = MixSeed(seed, number);
    for (uint64_t& word : words) word = SplitMix64(state);
  }
  uint64_t words[2 * kLanes];
};

}  // namespace

void FillUnique(uint8_t* out, size_t bytes, uint64_t seed, uint64_t number) {
  static const Generator generate = Choose();
  generate(out, bytes, Start(seed, number).words);
}

void FillUniquePlain(uint8_t* out, size_t bytes, uint64_t seed, uint64_t number) {
  GeneratePlain(out, bytes, Start(seed, number).words);
}

}  // namespace muster
