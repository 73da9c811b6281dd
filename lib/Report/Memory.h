// Memory of ranks over a step, and what it is made of.
#pragma once

#include "dtc/Plan/Predict/Prediction.h"

namespace dtc::report {

/// The most bytes held in each of `columns` equal parts of [0, seconds].
std::vector<double> highestPerColumn(const std::vector<simulate::MemoryPoint> &points,
                                     double seconds, size_t columns);

/// Ranks worth a curve, ascending. All are where they are few. Otherwise these are the first, the
/// last, the one with the highest peak and others at equal distances.
std::vector<int32_t> chooseRanks(const std::vector<double> &peaks, size_t most);

/// What memory is for, as it is stacked: what stays all the time first.
struct MemoryKind {
  const char *name;
  const char *meaning;
  int64_t plan::MemoryUse::*bytes;
};
const std::vector<MemoryKind> &memoryKinds();

} // namespace dtc::report
