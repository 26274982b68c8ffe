#pragma once
#include <cstddef>
#include <cstdint>

namespace muster {

// Fills `bytes` at `out` with random content that does not compress: xorshift128+ (Vigna 2014) in eight lanes, each
// seeded by SplitMix64 from (seed, number). Every (seed, number) gives other content, and so does every 4 KiB of it,
// so no two units written are alike. Memory speed: with the widest vectors the CPU has, the same bytes with any.
// Thread-safe.
void FillUnique(uint8_t* out, size_t bytes, uint64_t seed, uint64_t number);
// The same bytes by the plain instruction set.
void FillUniquePlain(uint8_t* out, size_t bytes, uint64_t seed, uint64_t number);

}  // namespace muster
