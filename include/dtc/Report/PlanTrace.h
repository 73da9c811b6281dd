// `--trace`: the simulated step of a plan as a file for Perfetto.
#pragma once

#include "dtc/Report/PlanFacts.h"

namespace dtc::report {

/// The trace (simulate::writeTrace), its ranks named by stages, layers and
/// devices; refused where the plan's schedule can't be.
plan::Result<std::string> planTrace(const PlanFacts &facts);

} // namespace dtc::report
