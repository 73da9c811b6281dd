#include "FreeSearch.h"

namespace dtc::driver {

/// With nothing that saves a rank's memory at the cost of messages, unless that is pinned.
static plan::Spec withoutSavings(plan::Spec spec) {
  auto add = [](auto &pin, auto value) {
    if (!pin)
      pin = value;
  };
  if (!spec.schedule && !spec.chunks)
    add(spec.pp, 1);
  if (!spec.contextExchange)
    add(spec.cp, 1);
  if (!spec.zeroGroup)
    add(spec.zero, 0);
  add(spec.recompute, plan::Recompute::None);
  add(spec.kept, 0);
  add(spec.regather, false);
  return spec;
}

/// Whether larger microbatches may lack memory: with twice the samples a call holds at most twice
/// as much.
static bool mayLackMemory(const plan::Prediction &predicted) {
  return 2 * double(predicted.memory.total()) > predicted.memoryCapacity;
}

plan::SearchOutcome searchFreely(const Planner &planner, const Candidate &whole,
                                 const plan::SearchOptions &asked, const plan::Cluster &cluster) {
  constexpr double worthSaving = 0.995;
  auto perSample = [](const plan::SearchResult &of) { // an open batch differs in its samples
    return of.predicted.stepSeconds / double(of.plan.degrees.samples());
  };
  if (!asked.executable || planner.request.options.target != Target::CPU)
    return plan::search(whole.problem, cluster, asked);
  plan::SearchOptions plain = asked;
  plain.spec = withoutSavings(asked.spec);
  plain.findClosest = plain.adviseOtherwise = false;
  auto found = plan::search(whole.problem, cluster, plain);
  if (!found || !found->predicted.fits())
    return plan::search(whole.problem, cluster, asked);
  found->pinned = found->pinned && asked.spec.zero && asked.spec.recompute;
  if (!mayLackMemory(found->predicted))
    return found;
  auto saving = plan::search(whole.problem, cluster, asked);
  const bool isFaster =
      saving && saving->predicted.fits() && perSample(*saving) < worthSaving * perSample(*found);
  return isFaster ? std::move(saving) : std::move(found);
}

} // namespace dtc::driver
