// The degrees that a search considers: products of dp, tp, cp, ep, pp that are the
// number of devices, microbatch sizes, schedules. What SPEC pins is fixed.
#pragma once

#include "dtc/Plan/Search.h"

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

/// The first `devices` of a cluster in runs of the same type, joined alike: {16, 8} of
/// two nodes of 8 H100 and one of 8 A100.
std::vector<int64_t> alikeDevices(const Cluster &cluster, int64_t devices);

Candidates findCandidates(const Problem &problem, const ProblemFacts &facts, const Spec &spec,
                          const SearchOptions &options, const SearchRange &range);

/// How many data-parallel ranks may share ZeRO's storage (hybrid sharding: every
/// group of them holds all of it), beside all of them; descending. Groups fill a
/// node, or another level of links, or a number of nodes that is a power of four:
/// dp=64, tp=2 in nodes of 8 gives 16 and 4.
std::vector<int64_t> zeroGroups(const Degrees &degrees, const Cluster &cluster);

/// Whether the data-parallel ranks are a multiple of so many; those of a stage group may also
/// be fewer.
bool suitsGroups(const Degrees &degrees, int64_t zeroGroup);

/// dp, tp, pp, cp, ep, zero, recompute and micro_batch are known.
bool isPinned(const Spec &spec);

} // namespace dtc::plan
