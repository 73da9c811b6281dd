// Counter-based random numbers (Salmon et al., 2011: Philox 4x32-10). The n-th number is a function
// of n and the key. So every rank draws its own part of a tensor and gets what one rank would.
#pragma once

#include <array>
#include <cstdint>

namespace dtc::rt {

/// What numbers are drawn for: part of the counter, so that streams differ.
enum class RandomStream : uint32_t { Weights = 1, Samples = 2, Dropout = 3 };

/// Four random words for a counter.
std::array<uint32_t, 4> philox(uint64_t seed, RandomStream stream, uint32_t item, uint64_t index);

/// Standard normal numbers `begin` to `begin + count` of item `item`.
void drawNormal(uint64_t seed, RandomStream stream, uint32_t item, uint64_t begin, int64_t count,
                float *target);

} // namespace dtc::rt
