#include "Calls.h"

#include "Capacity.h"
#include "FreeSearch.h"

#include "dtc/Plan/Search/Remedy.h"

#include <algorithm>

namespace dtc::driver {

using plan::Alternative;

namespace {

class CallsPlanner {
public:
  CallsPlanner(const Planner &planner, const Candidate &whole) : planner(planner), whole(whole) {}

  Outcome<Candidate> run(plan::SearchOptions asked);

private:
  Outcome<Candidate> fastestOf(const plan::SearchResult &found);
  Outcome<Candidate> planOf(const plan::Degrees &degrees, const BatchChoice &cut);
  plan::SearchOutcome search(const Candidate &candidate, const plan::Degrees &degrees) const;
  bool isEnough(Outcome<Candidate> &best) const {
    return best ? best->search.predicted.fits() || !whole.search.predicted.fits() : !failure;
  }

  const Planner &planner;
  const Candidate &whole;
  std::optional<plan::SearchFailure> failure; ///< why the last plan that doesn't fit has no calls
};

} // namespace

/// A plan that fits hardly may do so no longer. Another one of its mesh and microbatch is searched
/// then.
plan::SearchOutcome CallsPlanner::search(const Candidate &candidate,
                                         const plan::Degrees &degrees) const {
  const plan::Spec &given = planner.request.spec;
  plan::SearchOptions asked = searchOptions(planner, candidate, plan::pinned(degrees, given));
  asked.adviseOtherwise = false;
  auto found = plan::search(candidate.problem, planner.request.cluster, asked);
  if (found ? found->predicted.fits() : found.error().category != ErrorCategory::NoFit)
    return found;
  asked.spec = plan::withCalls(degrees, given);
  asked.findClosest = false;
  auto other = plan::search(candidate.problem, planner.request.cluster, asked);
  return other && other->predicted.fits() ? std::move(other) : std::move(found);
}

Outcome<Candidate> CallsPlanner::planOf(const plan::Degrees &degrees, const BatchChoice &cut) {
  auto candidate = cutCalls(planner, degrees, cut);
  if (!candidate)
    return candidate;
  auto found = search(*candidate, degrees);
  if (!found) {
    failure = found.error();
    return ErrorCategory::NoFit;
  }
  candidate->search = std::move(*found);
  return candidate;
}

/// Of the plans that a search found. The one that is thought to be fastest is looked at in its
/// calls, until none is thought to be faster.
Outcome<Candidate> CallsPlanner::fastestOf(const plan::SearchResult &found) {
  std::vector<Alternative> others = found.alternatives;
  auto best =
      planOf(found.plan.degrees, {found.problem.globalBatch(), found.problem.numMicrobatches});
  while ((best || failure) && !others.empty()) {
    auto next = std::min_element(others.begin(), others.end(), isFaster);
    Alternative now = *next;
    if (!best) {
      others.erase(next);
    } else if (Alternative known = chosenIn(best->search); isFaster(now, known)) {
      *next = std::move(known);
    } else {
      break;
    }
    best = planOf(now.degrees, {now.degrees.samples(), now.degrees.numMicrobatches});
  }
  if (!best)
    return best;
  std::stable_sort(others.begin(), others.end(), isFaster);
  best->search.alternatives = std::move(others);
  best->search.pinned = found.pinned;
  best->search.advice = found.advice;
  return best;
}

/// Where none of the plans that were found fits in its calls, the whole is searched for what leaves
/// ever more memory free.
Outcome<Candidate> CallsPlanner::run(plan::SearchOptions asked) {
  const plan::Cluster &cluster = planner.request.cluster;
  asked.findClosest = asked.adviseOtherwise = false;
  Outcome<Candidate> best = fastestOf(whole.search);
  for (double share : {15.0 / 16, 7.0 / 8, 3.0 / 4}) {
    if (isEnough(best))
      return best;
    if (auto found = searchFreely(planner, whole, asked, plan::withMemory(cluster, share)))
      best = fastestOf(*found);
  }
  if (best || !failure)
    return best;
  if (failure->closestPlan && planner.tellsFailure)
    failure->closestPlan->remedy = plan::findRemedy(whole.problem, cluster, asked);
  return fail(withCapacity(planner, whole, *failure));
}

Outcome<Candidate> planInCalls(const Planner &planner, const Candidate &whole,
                               const plan::SearchOptions &asked) {
  return CallsPlanner(planner, whole).run(asked);
}

} // namespace dtc::driver
