// What a plan holds for: precision, batch, optimizer and cluster, and which of it nobody asked for.
#pragma once

#include "../Phases.h"

#include "dtc/Report/PlanFacts.h"

namespace dtc::driver {

std::vector<report::Condition> conditionsOf(const Request &request, const Planned &planned);

} // namespace dtc::driver
