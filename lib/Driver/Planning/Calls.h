// The plan of a step in its calls as they will be.
//
// A search prices the step as it was imported, in one call. What its microbatches take is known
// once the step is built for them (Candidate.h). Then the chosen plan may be slower than was
// thought, or not fit, and others are looked at in the same way.
#pragma once

#include "Candidate.h"

namespace dtc::driver {

/// The best plan in its calls. `whole` has been searched, with what is `asked`.
Outcome<Candidate> planInCalls(const Planner &planner, const Candidate &whole,
                               const plan::SearchOptions &asked);

} // namespace dtc::driver
