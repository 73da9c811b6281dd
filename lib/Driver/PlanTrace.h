// `--trace`: the simulated step of a plan as a file for Perfetto.
#pragma once

#include "PlanReport.h"

namespace dtc::driver {

/// The trace (simulate::writeTrace), its ranks named by stages, layers and
/// devices; refused where the plan's schedule can't be.
plan::Result<std::string> planTrace(const PlanFacts &facts);

} // namespace dtc::driver
