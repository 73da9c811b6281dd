// Whether any plan fits, found much sooner than the best one is.
//
// Only plans that save memory in every way are looked at: the smallest microbatches, the highest
// level of ZeRO, everything recomputed, states offloaded. Where none of these fits hardly any
// other does. A search for which nothing fits takes seconds for a large model, so that advice on
// what would help asks this first of every SPEC and number of devices.
#pragma once

#include "SearchState.h"

namespace dtc::plan {

/// True: `search` finds a plan, too. False: it hardly would.
bool fitsWithLeastMemory(const Problem &problem, const Cluster &cluster,
                         const SearchOptions &options);
/// The same of a state in which nothing was searched yet.
bool fitsWithLeastMemory(SearchState &state);

} // namespace dtc::plan
