// What dtc says about plans to scripts: the objects of `--json`.
#pragma once

#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Plan/Explain/ShardingExplanation.h"
#include "dtc/Report/Comparison.h"
#include "dtc/Report/Estimate.h"

#include <nlohmann/json.hpp>

namespace dtc::report {

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

/// `dtc plan --compare --json`: {"a": {"name", and all that `dtc plan --json` says}, "b": ...,
/// "difference": what b spends and holds beyond a, "collectives": those that differ, "winner": "a",
/// "b" or null}. The fastest of those that fit wins.
nlohmann::ordered_json comparisonJson(const Compared &a, const Compared &b);

/// The key "explanation" of `dtc plan --explain --json`; docs/Json.md lists its keys.
nlohmann::ordered_json explanationJson(const plan::Explanation &explanation);

/// Its key "subject", with --explain=NAME. The cost of a way is a share of the plan's step,
/// its bytes are beyond the plan's.
nlohmann::ordered_json subjectJson(const std::vector<plan::ShardingExplanation> &subjects);

/// `dtc estimate --json`.
nlohmann::ordered_json estimateJson(const Estimate &estimate);

} // namespace dtc::report
