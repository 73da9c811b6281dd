// What would help where no plan fits.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::plan {

/// The cheapest of: another value for something that is pinned, nothing pinned, more devices.
Remedy findRemedy(const Problem &problem, const Cluster &cluster, const SearchOptions &options);

/// A SPEC in which one setting is no longer pinned.
struct Unpinned {
  const Setting *setting;
  Spec spec;
};
/// For each setting that is pinned, what costs least to change first. What the problem was built
/// for, as slots of experts, stays pinned.
std::vector<Unpinned> withoutEachPin(const Spec &spec);
/// Nothing pinned but that.
Spec withoutPins(const Spec &spec);
/// What says how a plan's calls are: its mesh and microbatch. The rest is as asked for.
Spec withCalls(const Degrees &degrees, Spec asked);
/// Each device has this share of its memory.
Cluster withMemory(Cluster cluster, double share);

} // namespace dtc::plan
