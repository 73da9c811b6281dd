// Which sample is the n-th of a run.
#pragma once

#include <cstdint>

namespace dtc::rt {

/// In order, again and again; or shuffled, every epoch by another permutation that depends on the
/// seed alone. Nothing is stored. The permutation is a block cipher on the smallest domain of an
/// even number of bits that holds all samples. It is applied until the result is one of them.
class SampleOrder {
public:
  SampleOrder(int64_t numSamples, bool shuffled, uint64_t seed);

  /// The sample at `position`, counted from the start of training.
  int64_t at(int64_t position) const;

private:
  uint64_t permute(uint64_t index, uint64_t epoch) const;
  int64_t numSamples;
  bool shuffled;
  uint64_t seed;
  unsigned halfBits = 1;
};

} // namespace dtc::rt
