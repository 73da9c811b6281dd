// What dtc says about a plan: text for people, JSON for scripts.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Plan/Search.h"

#include <nlohmann/json.hpp>

namespace dtc::driver {

/// Everything that a report draws on.
struct PlanFacts {
  const plan::Problem &problem;
  const plan::SearchResult &search;
  const plan::Cluster &cluster;
  int64_t devices = 1;
  double planningSeconds = 0;
  const plan::Workspace *workspace = nullptr;
};

/// The `plan` object of `dtc plan --json`, also in the artifact's manifest.
nlohmann::ordered_json degreesJson(const plan::Degrees &degrees);

/// The whole answer of `dtc plan --json`; figures that can't be known are null.
nlohmann::ordered_json planJson(const PlanFacts &facts);

/// The table that `dtc plan` and `dtc compile` print.
std::string planText(const PlanFacts &facts);

/// "1.5 MiB", "12.3 ms": three significant digits.
std::string formatBytes(double bytes);
std::string formatSeconds(double seconds);

/// "all_reduce" and so on, as in the contract.
const char *collectiveName(sharding::StepKind kind);

} // namespace dtc::driver
