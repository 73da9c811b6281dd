// Slots of experts as a remedy where no plan fits.
#pragma once

#include "Candidate.h"

namespace dtc::driver {

/// Slots for the worst case are the default, as they make every plan exact. Where these don't fit,
/// the error says how many would.
plan::Error withCapacity(const Planner &planner, const Candidate &whole,
                         const plan::SearchFailure &failure);

} // namespace dtc::driver
