// One cut of the batch into calls, and the plan that is searched for it.
//
// What a call computes depends on how many calls a step has: the second one adds to the gradients
// of the first. So each cut is a step of its own, imported and trained anew:
//
//     prepare        the step of a cut                      -> a candidate without a plan
//     cutCalls       degrees and a cut                      -> the candidate of that cut
//     searchPinned   a candidate, degrees                   -> the best shardings for these
#pragma once

#include "../Phases.h"

#include "dtc/Plan/Search/Search.h"

namespace dtc::driver {

/// What planning needs beside the step.
struct Planner {
  Environment &env;
  const Request &request;
  const import::ModelFile &file;
  /// Whether it is told why there is no plan. What would help is found only then.
  bool tellsFailure = true;
};

/// A step whose batch is cut in one way, and a plan of it.
struct Candidate {
  Trained step;
  plan::Problem problem;
  std::unique_ptr<plan::Workspace> workspace;
  plan::SearchResult search = {};
};

/// Whether a plan takes less time a sample; one that doesn't fit takes any.
bool isFaster(const plan::Alternative &a, const plan::Alternative &b);
plan::Alternative chosenIn(const plan::SearchResult &search);

Outcome<Candidate> prepare(const Planner &planner, Trained step);

/// `pins`: what the search has to keep.
plan::SearchOptions searchOptions(const Planner &planner, const Candidate &candidate,
                                  const plan::Spec &pins);
/// Of the step as it was imported. Where the batch is open, every rank brings its own samples.
plan::SearchOptions firstOptions(const Planner &planner, const Candidate &candidate);

ErrorCategory fail(const plan::SearchFailure &failure);

/// The best shardings for given degrees.
plan::SearchOutcome searchPinned(const Planner &planner, const Candidate &candidate,
                                 const plan::Degrees &degrees);
/// The step with the batch cut as these degrees have it. It is another one, as what a call does is
/// different with several of them (it adds to earlier gradients).
Outcome<Candidate> cutCalls(const Planner &planner, const plan::Degrees &degrees,
                            const BatchChoice &cut);

} // namespace dtc::driver
