// What a stage's activations take, beside the parameters and gradients of which whole ones come
// and go.
#include "PlacedPrograms.h"

#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Schedule/Descriptor.h"

#include <algorithm>

namespace dtc::plan {

/// Calls of dtc's stages compute where they read it what is made of constants alone, or of what
/// they keep anyway.
int64_t StageCosts::savedBytes(const StageRun &run) const {
  bool remakes = degrees.pp > 1 && hasPlaces(model.getCluster().software);
  auto of = [&](const UnitCosts &costs, int begin, int end) {
    return costs.savedBytes(begin, end) - (remakes ? costs.remadeBytes(begin, end) : 0);
  };
  return of(unitCosts, run.kept, run.end) +
         (run.kept > run.begin ? of(*recomputed, run.begin, run.kept) : 0);
}

/// By which level whole parameters and gradients come and go within passes; 0 where they stay,
/// and for programs whose allocator is emulated (RankRequests).
int StageCosts::findExchanged() const {
  auto any = [&](int64_t WeightClass::Ranks::*axes) {
    return std::any_of(classes.begin(), classes.end(),
                       [&](const WeightClass &weights) { return weights.ranks.*axes > 1; });
  };
  if (!hasPlaces(model.getCluster().software))
    return 0;
  return any(&WeightClass::Ranks::storage) ? 3 : any(&WeightClass::Ranks::gradient) ? 2 : 0;
}

/// The last units run their forward pass last and their backward pass first, while those before
/// them keep what they do.
int64_t StageCosts::peakBytes(const StageRun &run) const {
  double share = parametersOf(run).waitingShare;
  int64_t before = 0, most = 0;
  if (run.kept > run.begin) {
    before = recomputed->savedBytes(run.begin, run.kept);
    most = recomputed->peakBytes(run.begin, run.kept, exchanged, share);
  }
  return std::max(most, before + unitCosts.peakBytes(run.kept, run.end, exchanged, share));
}

int64_t StageCosts::temporaryBytes(StageCall call, const StageRun &run) const {
  double share = parametersOf(run).waitingShare;
  int64_t most = unitCosts.temporaryBytes(call, run.kept, run.end, exchanged, share);
  if (run.kept > run.begin)
    most = std::max(most, recomputed->temporaryBytes(call, run.begin, run.kept, exchanged, share));
  return most;
}

int64_t StageCosts::waitingBytes(const StageRun &run) const {
  return unitCosts.waitingBytes(run.kept, run.end) +
         (run.kept > run.begin ? recomputed->waitingBytes(run.begin, run.kept) : 0);
}

/// What is saved for gradients of weights, or made again for them, and the gradients that they
/// read.
int64_t StageCosts::keptBytes(const StageRun &run) const {
  int64_t saved = unitCosts.savedForWeights(run.kept, run.end);
  if (run.kept > run.begin)
    saved += recomputed->savedForWeights(run.begin, run.kept);
  return saved + waitingBytes(run);
}

bool StageCosts::placesCalls() const {
  return degrees.pp > 1 && hasPlaces(model.getCluster().software);
}

int64_t StageCosts::slotBytes(const StageRun &run, bool splits) const {
  return savedBytes(run) + (splits && placesCalls() ? waitingBytes(run) : 0);
}

int64_t StageCosts::handedOverInSlots(const StageRun &before, const StageRun &after) const {
  if (!placesCalls())
    return 0;
  const bool splits = schedule::describe(degrees.schedule).splitsBackward();
  int64_t bytes = 0;
  for (const StageRun &run : {before, after}) {
    bytes += unitCosts.slotBytesOver(after.begin, run.kept, run.end, splits);
    if (run.kept > run.begin)
      bytes += recomputed->slotBytesOver(after.begin, run.begin, run.kept, splits);
  }
  return bytes;
}

int64_t StageCosts::heldBytes(const StageRun &run, const InFlight &held) const {
  const int64_t slot = slotBytes(run, held.splits);
  if (!placesCalls()) {
    // What waits grows while the call of input gradients runs.
    int64_t grown = held.splits ? std::max<int64_t>(0, keptBytes(run) - slot) : 0;
    return peakBytes(run) + (held.microbatches - 1) * slot + grown;
  }
  auto own = [&](StageCall call) { return temporaryBytes(call, run); };
  if (!held.splits)
    return held.microbatches * slot + std::max(own(StageCall::Forward), own(StageCall::Backward));
  return held.microbatches * slot +
         std::max({own(StageCall::Forward), own(StageCall::InputGrad), own(StageCall::WeightGrad)});
}

} // namespace dtc::plan
