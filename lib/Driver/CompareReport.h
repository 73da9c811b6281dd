// `dtc plan --compare --json`.
#pragma once

#include "PlanReport.h"

#include "dtc/Report/Comparison.h"

namespace dtc::driver {

/// {"a": {"name", and all that `dtc plan --json` says}, "b": ..., "difference":
/// what b spends and holds beyond a, "collectives": those that differ, "winner":
/// "a", "b" or null}. The fastest of those that fit wins.
nlohmann::ordered_json comparisonJson(const report::Compared &a, const report::Compared &b);

} // namespace dtc::driver
