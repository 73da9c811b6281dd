// What a stage's activations take, beside the parameters and gradients of which whole ones come
// and go.
#include "PlacedPrograms.h"

#include "dtc/Plan/Predict/StageCosts.h"

#include <algorithm>

namespace dtc::plan {

/// Calls of dtc's stages compute what is made of constants alone where they read it.
int64_t StageCosts::savedBytes(const StageRun &run) const {
  bool remakes = degrees.pp > 1 && hasPlaces(model.getCluster().software);
  auto of = [&](const UnitCosts &costs, int begin, int end) {
    return costs.savedBytes(begin, end) - (remakes ? costs.staticBytes(begin, end) : 0);
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

/// One past the last unit of a stage that has the higher of two levels.
int StageCosts::zeroEndOf(const StageRun &run) const {
  int end = run.end;
  while (!higherBefore.empty() && end > run.begin && higherBefore[end] == higherBefore[end - 1])
    --end;
  return end;
}

StageCosts::Parts StageCosts::partsOf(const StageRun &run) const {
  int zeroEnd = exchanged > 0 ? zeroEndOf(run) : run.end;
  Parts parts;
  auto add = [&](const UnitCosts *costs, int begin, int end) {
    int middle = std::clamp(zeroEnd, begin, end);
    if (begin < middle)
      parts.list[parts.count++] = {costs, begin, middle, exchanged};
    if (middle < end)
      parts.list[parts.count++] = {costs, middle, end, exchanged - 1};
  };
  if (run.kept > run.begin)
    add(recomputed, run.begin, run.kept);
  add(&unitCosts, run.kept, run.end);
  return parts;
}

/// The last units run their forward pass last and their backward pass first, while those before
/// them keep what they do.
int64_t StageCosts::peakBytes(const StageRun &run) const {
  int64_t most = 0;
  double share = parametersOf(run).waitingShare;
  Parts parts = partsOf(run);
  for (size_t i = parts.count; i-- > 0;) {
    const Part &part = parts.list[i];
    int64_t before = 0;
    if (run.kept > run.begin && part.begin >= run.kept)
      before = recomputed->savedBytes(run.begin, run.kept) +
               (part.begin > run.kept ? unitCosts.savedBytes(run.kept, part.begin) : 0);
    else if (part.begin > run.begin)
      before = part.costs->savedBytes(run.begin, part.begin);
    most = std::max(most, before + part.costs->peakBytes(part.begin, part.end, part.zero, share));
  }
  return most;
}

int64_t StageCosts::temporaryBytes(StageCall call, const StageRun &run) const {
  int64_t most = 0;
  double share = parametersOf(run).waitingShare;
  Parts parts = partsOf(run);
  for (size_t i = 0; i < parts.count; ++i) {
    const Part &part = parts.list[i];
    most = std::max(most, part.costs->temporaryBytes(call, part.begin, part.end, part.zero, share));
  }
  return most;
}

int64_t StageCosts::waitingBytes(const StageRun &run) const {
  return unitCosts.waitingBytes(run.kept, run.end) +
         (run.kept > run.begin ? recomputed->waitingBytes(run.begin, run.kept) : 0);
}

bool StageCosts::placesCalls() const {
  return degrees.pp > 1 && hasPlaces(model.getCluster().software);
}

int64_t StageCosts::slotBytes(const StageRun &run, bool splits) const {
  return savedBytes(run) + (splits && placesCalls() ? waitingBytes(run) : 0);
}

int64_t StageCosts::heldBytes(const StageRun &run, const InFlight &held) const {
  const int64_t slot = slotBytes(run, held.splits);
  if (!placesCalls())
    return peakBytes(run) + (held.microbatches - 1) * slot;
  auto own = [&](StageCall call) { return temporaryBytes(call, run); };
  if (!held.splits)
    return held.microbatches * slot + std::max(own(StageCall::Forward), own(StageCall::Backward));
  return held.microbatches * slot +
         std::max({own(StageCall::Forward), own(StageCall::InputGrad), own(StageCall::WeightGrad)});
}

} // namespace dtc::plan
