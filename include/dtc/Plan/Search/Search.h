// The planner: from a problem, a cluster and what the user pinned to a plan
// with its prediction and the runners-up.
//
//   SearchOptions asked;
//   asked.devices = 8;
//   asked.spec.tp = 2;                                // pinned; the rest is open
//   SearchOutcome found = search(problem, cluster, asked);
//   if (found)
//     found->plan.degrees, found->predicted.stepSeconds, found->alternatives ...
//   else if (found.error().closestPlan)               // nothing fits: what is short, what helps
//     found.error().closestPlan->predicted, ...->remedy
#pragma once

#include "dtc/Plan/Plan/Abilities.h"
#include "dtc/Plan/Predict/Prediction.h"
#include "dtc/Plan/Shard/SolveSharding.h"

#include <set>

namespace dtc::plan {

/// What a plan that is not the chosen one has.
struct Alternative {
  Degrees degrees;
  Prediction predicted;
};

/// What suits the model better than a number of devices that shares few divisors with the batch.
/// 65 devices have one copy of the model for a batch of 256, and 64 have 64 copies.
struct Advice {
  std::optional<Alternative> fewer; ///< faster on some of the devices
  bool isOnlyWay = false;           ///< there is no plan on all of them
  int64_t globalBatch = 0;          ///< the next one that all devices can share; 0: none
};

struct SearchResult {
  Plan plan;
  Prediction predicted;
  /// What was planned: the given problem, for the samples of one call under this plan.
  Problem problem;
  std::vector<Alternative> alternatives; ///< best first, without the chosen one
  /// Upper bound on (found - optimal) / optimal of the shardings under the
  /// chosen mesh; 0 when solved exactly.
  double optimalityGap = 0;
  SolverOptions solver; ///< what the shardings were solved for
  /// Nothing was left to search but what costs no memory.
  bool pinned = false;
  Advice advice = {}; ///< as adviseOn gives it
};

struct Setting;

/// What would help where nothing fits.
struct Remedy {
  /// A plan that fits, with another value for `setting` or, without one, with nothing pinned.
  std::optional<Degrees> plan = std::nullopt;
  const Setting *setting = nullptr;
  int64_t devices = 0; ///< on as many a plan fits; 0: it isn't known on how many
  bool unpins = false; ///< only with nothing pinned
};

/// The plan that comes closest to fitting: `predicted` says what is short, where and by how much.
struct ClosestPlan {
  Degrees degrees;
  Prediction predicted;
  Remedy remedy = {};
};

/// Why there is no plan. report::failureText puts it into words.
struct SearchFailure {
  SearchFailure(Error error) : message(std::move(error.message)), category(error.category) {}
  SearchFailure(ClosestPlan closest)
      : message("no plan fits"), category(ErrorCategory::NoFit), closestPlan(std::move(closest)) {}
  std::string message; ///< without what is short
  ErrorCategory category;
  std::optional<ClosestPlan> closestPlan; ///< where plans exist, but memory is too small
  Advice advice = {};               ///< as adviseOn gives it
  int64_t devices = 0;              ///< that the advice is about
};

using SearchOutcome = Result<SearchResult, SearchFailure>;

/// How plans are looked for, one way after the other (lib/Plan/Search/Strategies.h).
enum class SearchStrategy : uint8_t {
  Candidates,       ///< all degrees, as far as they may be the best
  SmallerShardings, ///< shardings that hold less where that spares recomputation
  Offloaded         ///< states in the hosts' memory where that is faster
};

struct SearchOptions {
  int64_t devices = 1;
  Spec spec; ///< what is pinned
  Abilities abilities = {}; ///< of the program that is to run the plan
  /// The problem is that of the program that will run. It isn't shared out in ways for which the
  /// program would have to be built anew (SharedRows.h).
  bool executable = true;
  /// The global batch is this many samples for each data-parallel rank; 0: it is
  /// the problem's.
  int64_t samplesPerRank = 0;
  /// The problem's calls can't be cut otherwise.
  bool fixedCalls = false;
  const Workspace *workspace = nullptr; ///< as for `predict`
  bool findClosest = true; ///< where nothing fits, say what comes closest
  bool adviseOtherwise = true; ///< where nothing fits, look for what would
  /// Where devices are of several types, pipeline stages may differ in their mesh.
  bool unequalMeshes = true;
  /// Plans one of many equal layers for all; without, the same is found in more time.
  bool fold = true;
  /// Left out, to measure what they gain.
  std::set<SearchStrategy> without = {};
};

/// The plan with the fewest seconds a sample that fits. A plan pinned in full
/// is returned even when it doesn't fit (prediction.fits() says so). Errors: Usage
/// where the SPEC can't be honoured, NoFit where nothing fits, with what is short.
SearchOutcome search(const Problem &problem, const Cluster &cluster, const SearchOptions &options);

/// Adds advice to what a search found, or to why it found nothing. Only a number of devices that
/// doesn't divide the batch, with all degrees open, has any.
void adviseOn(SearchOutcome &found, const Problem &problem, const Cluster &cluster,
              const SearchOptions &options);

} // namespace dtc::plan
