// Plans of given degrees or specs, as tests want them.
#pragma once

#include "Problems.h"

#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Search/CompletePlan.h"

namespace dtc::plan::testing {

/// For all that can be planned, compiled or not.
inline SearchOptions optionsOf(int64_t devices, const std::string &spec = "auto") {
  SearchOptions options;
  options.devices = devices;
  options.spec = *parseSpec(spec);
  options.executable = false;
  return options;
}

inline SearchOutcome found(const Problem &problem, int64_t devices, const std::string &spec,
                           const Cluster &on = cluster("dgx-h100")) {
  return search(problem, on, optionsOf(devices, spec));
}

/// What is found, verified.
inline SearchResult best(const Problem &problem, int64_t devices, const std::string &spec,
                         const Cluster &on = cluster("dgx-h100")) {
  SearchOutcome result = found(problem, devices, spec, on);
  if (!result) {
    ADD_FAILURE() << spec << ": " << result.error().message;
    return {};
  }
  for (const Violation &violation : verify(result->problem, result->plan, on))
    ADD_FAILURE() << spec << ": " << violation.message;
  return *result;
}

/// Everything that a search has at hand for one problem.
struct Planner {
  Planner(const Problem &problem, const Cluster &on, int64_t devices)
      : problem(problem), on(on), facts(problem), options(optionsOf(devices)),
        shardings(problem, on, options), estimator(shardings, problem, facts) {}

  /// Estimated with memory of any size, and predicted in full.
  Result<CompletePlan> carriedOut(const Degrees &degrees, Estimate &estimate,
                              const ShardVariant &variant = {}) {
    std::string error;
    if (estimator.estimate(degrees, variant, {1e9, true}, estimate, error) !=
        Estimator::Outcome::Found)
      return Error{"no estimate: " + error, ErrorCategory::NoFit};
    return completePlan(problem, on, shardings, estimate);
  }
  /// The plan of the whole model.
  std::pair<Plan, Problem> planOf(const Degrees &degrees) {
    Estimate estimate;
    auto whole = carriedOut(degrees, estimate);
    if (!whole) {
      ADD_FAILURE() << summary(degrees) << ": " << whole.error().message;
      return {};
    }
    Result<Problem> planned = unfoldPlan(shardings, *whole);
    return {whole->plan, *planned};
  }

  const Problem &problem;
  const Cluster &on;
  ProblemFacts facts;
  SearchOptions options;
  ShardLibrary shardings;
  Estimator estimator;
};

/// What a program with this software makes of the spec on nodes of that type.
inline Prediction predicted(const Problem &problem, const Software &software, int64_t devices,
                            const std::string &spec, const char *node = "dgx-a100") {
  Cluster on = cluster(node);
  on.software = software;
  SearchOutcome result = found(problem, devices, spec, on);
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->predicted : Prediction{};
}

} // namespace dtc::plan::testing
