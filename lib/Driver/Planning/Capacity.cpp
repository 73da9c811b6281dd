#include "Capacity.h"

#include "FreeSearch.h"

#include "dtc/Dialect/Graph/SlotOps.h"
#include "dtc/Report/Failure.h"

using namespace mlir;

namespace dtc::driver {

static bool hasSlots(const Trained &step) {
  ModuleOp module = *step.model.module;
  return module.walk([](graph::ToSlotsOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Whether a plan fits that has other slots for experts, and is else as asked for.
static bool fitsWith(const Planner &planner, const BatchChoice &batch,
                     plan::ExpertCapacity capacity) {
  auto model = planner.file.import(samplesIn(planner.request, batch));
  if (failed(model))
    return false;
  pipelines::SlotsPipeline slots = slotsFor(planner.request, planner.request.spec);
  slots.capacity = capacity.factor;
  slots.tiles = capacity.inTiles;
  auto step = buildTraining(planner.request.options, Imported{std::move(*model), batch}, slots);
  if (!step)
    return false;
  auto candidate = prepare(planner, std::move(*step));
  if (!candidate)
    return false;
  plan::SearchOptions asked = firstOptions(planner, *candidate);
  asked.spec.capacity = capacity;
  asked.findClosest = asked.adviseOtherwise = false;
  auto found = searchFreely(planner, *candidate, asked, planner.request.cluster);
  return found && found->predicted.fits();
}

plan::Error withCapacity(const Planner &planner, const Candidate &whole,
                         const plan::SearchFailure &failure) {
  plan::Error error{report::failureText(failure), failure.category};
  const plan::Spec &spec = planner.request.spec;
  bool isWorstCase = !spec.capacity || spec.capacity->isWorstCase();
  if (!planner.tellsFailure || !failure.closestPlan || !isWorstCase || !hasSlots(whole.step))
    return error;
  error.message += "; experts have slots for the worst case";
  std::vector<plan::ExpertCapacity> fewer;
  if (multipliesTiles(planner.request.options))
    fewer.push_back({.inTiles = true});
  for (double factor : {4.0, 3.0, 2.0, 1.5, 1.25, 1.0})
    fewer.push_back({factor});
  for (const plan::ExpertCapacity &capacity : fewer)
    if (fitsWith(planner, whole.step.batch, capacity)) {
      error.message += ", with capacity=" + name(capacity) + " a plan fits";
      break;
    }
  return error;
}

} // namespace dtc::driver
