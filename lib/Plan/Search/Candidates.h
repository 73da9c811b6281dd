// The degrees that a search considers: products of dp, tp, cp, ep, pp that are the
// number of devices, microbatch sizes, schedules. What SPEC pins is fixed.
#pragma once

#include "DeviceGroups.h"

#include "dtc/Plan/Search/Search.h"

namespace dtc::plan {

struct Candidates {
  /// ZeRO, recomputation and offload are left at what is pinned, or none.
  std::vector<Degrees> list;
  std::string refusal; ///< why the last that is missing is
};

struct SearchRange {
  int64_t layers = 0;         ///< repeated blocks of the model
  int64_t tensorParallel = 1; ///< degrees beyond it, across slow links, never pay
  int64_t expertRanks = 1;    ///< Experts::mostRanks
  /// Devices beside each other that are alike (alikeDevices); one number: all are.
  std::vector<int64_t> alike = {};
  bool evenStages = false; ///< all numbers of chunks with which they are even are of use
  bool severalTypes = false; ///< of devices in the cluster
};

Candidates findCandidates(const Problem &problem, const ProblemFacts &facts, const Spec &spec,
                          const SearchOptions &options, const SearchRange &range);

/// dp, tp, pp, cp, ep, zero, recompute and micro_batch are known.
bool isPinned(const Spec &spec);

} // namespace dtc::plan
