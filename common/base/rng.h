#pragma once
#include <array>
#include <cmath>
#include <cstdint>

namespace muster {

// SplitMix64 step (Steele, Lea, Flood 2014): mixes seeds; also a cheap stateless hash of a counter.
inline uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// One seed for each (campaign seed, purpose, initiator, stream ...) tuple, so that every stream is reproducible
// whatever agent it runs on.
inline uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  uint64_t s = seed;
  uint64_t out = SplitMix64(s);
  for (uint64_t part : {a, b, c}) {
    s = out ^ (part * 0xD1342543DE82EF95ull);
    out = SplitMix64(s);
  }
  return out;
}

// xoshiro256** 1.0 (Blackman, Vigna 2018). Copyable: a copy continues the same sequence. Not thread-safe.
class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (auto& word : s_) word = SplitMix64(seed);
  }
  uint64_t Next() {
    const uint64_t result = Rotl(s_[1] * 5, 7) * 9;
    const uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = Rotl(s_[3], 45);
    return result;
  }
  // Uniform in [0, bound), bound > 0; multiply-shift (Lemire 2019), bias below 2^-64 * bound.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }
  // Uniform in [0, 1), 53 bits.
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Exponential with the given mean; never infinite.
  double Exponential(double mean) { return -mean * std::log(1.0 - Unit()); }

 private:
  static uint64_t Rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::array<uint64_t, 4> s_;
};

}  // namespace muster
