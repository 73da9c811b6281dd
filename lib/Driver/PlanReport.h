// What dtc says about a plan: text for people, JSON for scripts.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Report/PlanFacts.h"

#include <nlohmann/json.hpp>

namespace dtc::driver {

using report::PlanFacts;

/// The `plan` object of `dtc plan --json`, also in the artifact's manifest.
nlohmann::ordered_json degreesJson(const plan::Degrees &degrees);

/// The whole answer of `dtc plan --json`; figures that can't be known are null.
nlohmann::ordered_json planJson(const PlanFacts &facts);

/// The table that `dtc plan` and `dtc compile` print.
std::string planText(const PlanFacts &facts);

} // namespace dtc::driver
