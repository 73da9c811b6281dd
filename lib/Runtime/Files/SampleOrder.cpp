#include "dtc-rt/Files/SampleOrder.h"

#include "dtc-rt/Files/Philox.h"

namespace dtc::rt {

SampleOrder::SampleOrder(int64_t numSamples, bool shuffled, uint64_t seed)
    : numSamples(numSamples), shuffled(shuffled), seed(seed) {
  while ((uint64_t(1) << (2 * halfBits)) < static_cast<uint64_t>(numSamples))
    ++halfBits;
}

int64_t SampleOrder::at(int64_t position) const {
  uint64_t index = static_cast<uint64_t>(position % numSamples);
  if (!shuffled)
    return static_cast<int64_t>(index);
  uint64_t epoch = static_cast<uint64_t>(position / numSamples);
  do
    index = permute(index, epoch);
  while (index >= static_cast<uint64_t>(numSamples));
  return static_cast<int64_t>(index);
}

/// A Feistel network: a permutation whatever its round function is.
uint64_t SampleOrder::permute(uint64_t index, uint64_t epoch) const {
  uint64_t mask = (uint64_t(1) << halfBits) - 1;
  uint64_t left = index >> halfBits, right = index & mask;
  for (uint64_t round = 0; round < 6; ++round) {
    uint32_t item = static_cast<uint32_t>(epoch * 8 + round);
    uint64_t mixed = philox(seed, RandomStream::Samples, item, right)[0];
    uint64_t next = (left ^ mixed) & mask;
    left = right;
    right = next;
  }
  return left << halfBits | right;
}

} // namespace dtc::rt
