// The table that dtc prints about a plan.
#pragma once

#include "dtc/Report/PlanFacts.h"

#include <string>
#include <vector>

namespace dtc::report {

/// What may not be what it seems: degrees that sizes of the model can't be split by, and a
/// precision that the devices haven't got.
std::vector<std::string> planWarnings(const PlanFacts &facts, bool isBf16);

/// The table that `dtc plan` and `dtc compile` print.
std::string planText(const PlanFacts &facts);

} // namespace dtc::report
