// Whether a step trains.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// Whether there is a backward pass, and not the forward pass alone.
bool trains(const Problem &problem);

} // namespace dtc::plan
