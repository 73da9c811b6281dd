// Estimates that a search no longer trusts.
//
// An estimate knows what tensors take. What a caching allocator holds beside them is known of a
// complete plan alone. Where a round finds plans by their estimates and none of them fits, what it
// dropped for being slower may fit. So it runs again, and a plan counts as found only if its
// complete plan fits. One that recomputes as few blocks as memory asks for is estimated again with
// less memory, so that it recomputes more:
//
//   of its memory   estimate                complete plan
//   all             70 of 80 GB, 3 blocks   83 GB
//   15/16           66 of 75 GB, 4 blocks   81 GB
//   7/8             58 of 70 GB, 6 blocks   77 GB: found
//
// What stages send is known of a complete plan alone, too. In a small graph it is much of what they
// hold. So its pipelines that were estimated not to fit are completed, where they are fast enough.
//
// A mesh and schedule of which the plan that holds least doesn't fit is left out (isOutOfReach).
#include "SearchState.h"

namespace dtc::plan {

using Outcome = Estimator::Outcome;

/// Complete plans that a search confirms at most, as they take most of its time. One that holds
/// least is looked at even then.
static constexpr int64_t kMostConfirmed = 500, kMostLeast = 2000;
/// Of an op or two a stage.
static constexpr size_t kSmallGraph = 64;
/// The least share of its memory that a plan is estimated with.
static constexpr double kLeastShare = 0.5;

bool SearchState::confirm(const Estimate &estimated, bool holdsLeast) {
  if (confirmed >= (holdsLeast ? kMostLeast : kMostConfirmed))
    return false;
  ++confirmed;
  auto plan = completePlan(problem, cluster, shardings, estimated, MemoryDetail::WhetherItFits);
  return plan && plan->predicted.fits();
}

Outcome SearchState::estimateConfirmed(const Degrees &degrees, const ShardVariant &variant,
                                       EstimateOptions asked, Estimate &estimated) {
  for (double less = (1 - kLeastShare) / 8;; less *= 2) {
    Outcome outcome = estimateOnce(degrees, variant, asked, estimated);
    if (outcome != Outcome::Found || confirm(estimated, /*holdsLeast=*/false))
      return outcome;
    if (!asked.someBlocks || less > 1 - kLeastShare)
      return Outcome::TooLarge;
    asked.memoryShare = 1 - less;
  }
}

bool SearchState::fitsAsStages(const Degrees &degrees, const ShardVariant &variant,
                               EstimateOptions asked, Estimate &estimated) {
  if (degrees.pp == 1 || asked.anyMemory || problem.ops.size() > kSmallGraph)
    return false;
  asked.anyMemory = true;
  return estimateOnce(degrees, variant, asked, estimated) == Outcome::Found &&
         confirm(estimated, /*holdsLeast=*/false);
}

} // namespace dtc::plan
