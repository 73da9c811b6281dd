// The search for a plan where degrees are open.
#pragma once

#include "Candidate.h"

namespace dtc::driver {

/// Ranks of one processor share its memory. What saves a rank's at the cost of messages is for
/// models that don't fit without, or are faster by half a percent where memory is short.
plan::SearchOutcome searchFreely(const Planner &planner, const Candidate &whole,
                                 const plan::SearchOptions &asked, const plan::Cluster &cluster);

} // namespace dtc::driver
