// Tries one candidate: all levels of ZeRO, groups of ranks within which it stores, and as little
// recomputation as makes the candidate fit.
//
// Recomputation only ever costs time: as few blocks as memory asks for are recomputed
// (StagePrices.h), what attention keeps before whole blocks. ZeRO is not like that, as what it
// exchanges each microbatch may hide behind computation. So all levels are tried, and groups of
// ranks within which it stores. Smaller groups exchange over faster links and hold more. So they
// recompute no less than a large one.
//
// A schedule may take a limit of kept microbatches. Eight ranks then keep 15, as long as memory
// isn't short, else also 8, 4, 2 and 1: a rank that keeps fewer waits more, and recomputes less.
#pragma once

#include "SearchState.h"

#include <functional>

namespace dtc::plan {

/// Of all stages' meshes.
int64_t mostTensorRanks(const Degrees &degrees);

/// Estimates a known plan once with other degrees, as most plans are best as they are. Keeps the
/// plan where a sample takes it less than `seconds`; returns whether.
bool keepIfFaster(SearchState &state, const Estimate &known, Degrees degrees, double seconds);

/// How a strategy tries candidates.
struct Attempt {
  /// Which shardings a candidate may have.
  std::function<std::vector<ShardVariant>(SearchState &, const Degrees &)> variants;
  /// Seconds a sample above which a plan is of no use, by what has been found so far.
  std::function<double(const SearchState &)> limit = worthTelling;
  /// A sharding that is too slow isn't the last: one that holds less recomputes less.
  bool everySharding = false;
};

/// Keeps the plans that it finds in the state. Returns whether memory was short: something
/// didn't fit, or was recomputed.
bool tryCandidate(SearchState &state, const Degrees &candidate, const Attempt &attempt);

} // namespace dtc::plan
