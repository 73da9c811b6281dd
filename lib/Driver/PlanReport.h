// What dtc says about a plan: text for people, JSON for scripts.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Report/PlanFacts.h"

#include <nlohmann/json.hpp>

namespace dtc::driver {

using report::PlanFacts;

/// The `plan` object of `dtc plan --json`, also in the artifact's manifest.
nlohmann::ordered_json degreesJson(const plan::Degrees &degrees);

/// What a step is spent on; of a difference of two plans, signed.
nlohmann::ordered_json partsJson(const plan::StepParts &parts);
nlohmann::ordered_json memoryJson(const plan::MemoryUse &memory);

/// The `predicted` object of a plan of the facts' problem.
nlohmann::ordered_json predictionJson(const plan::Prediction &predicted,
                                      const plan::Degrees &degrees, const PlanFacts &facts);

/// The whole answer of `dtc plan --json`; figures that can't be known are null.
nlohmann::ordered_json planJson(const PlanFacts &facts);

/// What may not be what it seems: degrees that sizes of the model can't be split by, and a
/// precision that the devices haven't got.
std::vector<std::string> planWarnings(const PlanFacts &facts,
                                      training::Precision precision);

/// The table that `dtc plan` and `dtc compile` print.
std::string planText(const PlanFacts &facts);

} // namespace dtc::driver
