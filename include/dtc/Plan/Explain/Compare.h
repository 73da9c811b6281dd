// What one plan spends and holds beyond another.
//
// For the chosen plan A (10 s: 8 computing, 2 exposed over tp) and B (11 s: 8
// computing, 1 exposed over tp, 2 of bubble), differenceOf(B, A) is 1 s: bubble
// +2, exposed over tp -1. Plans whose steps have other numbers of samples are
// compared as if both had A's.
#pragma once

#include "dtc/Plan/Predict/Prediction.h"

namespace dtc::plan {

struct Difference {
  double seconds = 0; ///< of the step
  double share = 0;   ///< of the other's step; 0.05: 5 % slower
  StepParts parts;    ///< signed; `exposed` has the degrees of both
  MemoryUse memory;   ///< signed, of the rank that needs most
  /// Bytes by which the plan misses what a device has, or else a node's host; 0: it fits.
  double shortBytes = 0;
  bool isHostShort = false;
};

/// `samples` and `otherSamples`: of a step of each. Seconds are for `otherSamples`.
Difference differenceOf(const Prediction &plan, int64_t samples, const Prediction &other,
                        int64_t otherSamples);

/// The calls of one kind over the same degrees, of a step and rank.
struct CollectiveTotal {
  sharding::StepKind kind = sharding::StepKind::AllReduce;
  bool send = false;
  std::string axis;
  int64_t count = 0;
  double bytes = 0, seconds = 0; ///< of all calls
  bool operator==(const CollectiveTotal &) const = default;
};
struct CollectivePair {
  CollectiveTotal a, b; ///< count 0: that plan has none
};

/// What two plans communicate, where they differ; in the order of the first plan.
std::vector<CollectivePair> differingCollectives(const Prediction &a, const Prediction &b);

} // namespace dtc::plan
