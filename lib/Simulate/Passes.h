// What a call of a stage costs: shared by the simulator and its lower bound; and
// whether costs can be.
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <algorithm>

namespace dtc::simulate {

inline Work workOf(const StageCost &stage, schedule::Pass pass) {
  switch (pass) {
  case schedule::Pass::Forward:
    return stage.forward;
  case schedule::Pass::Backward:
    return stage.recompute + stage.inputGrad + stage.weightGrad;
  case schedule::Pass::InputGrad:
    return stage.recompute + stage.inputGrad;
  case schedule::Pass::WeightGrad:
    return stage.weightGrad;
  }
  return {};
}

/// What a call has beyond what is kept when it begins, at most.
inline double transientOf(const StageCost &stage, schedule::Pass pass) {
  switch (pass) {
  case schedule::Pass::Forward:
    return stage.forwardTransient;
  case schedule::Pass::Backward:
    return stage.backwardTransient;
  case schedule::Pass::InputGrad:
    return stage.backwardTransient + std::max(0.0, stage.keptBytes - stage.savedBytes);
  case schedule::Pass::WeightGrad:
    return stage.weightGradTransient;
  }
  return 0;
}

inline double temporariesOf(const StageCost &stage, schedule::Pass pass) {
  switch (pass) {
  case schedule::Pass::Forward:
    return stage.temporaries.forward;
  case schedule::Pass::Backward:
    return stage.temporaries.backward;
  case schedule::Pass::InputGrad:
    return stage.temporaries.inputGrad;
  case schedule::Pass::WeightGrad:
    return stage.temporaries.weightGrad;
  }
  return 0;
}

/// What a rank's places come to where memory is placed, with so many bytes of messages.
double placedBytes(const schedule::Schedule &schedule, const Costs &costs, int64_t rank,
                   double messages);

/// Whether they are places: a single stage runs forward and backward in one function.
inline bool isPlaced(const schedule::Schedule &schedule, const Costs &costs) {
  return costs.placed && schedule.shape.stages() > 1;
}

/// Prologue and update: everything in a row.
inline double serialSeconds(const Work &work) {
  return work.compute + work.blocking + work.overlapped;
}

/// Why costs can't belong to stages and ranks of this shape, of which there may be
/// no schedule but one made by hand.
std::string checkCosts(const schedule::ScheduleShape &shape, const Costs &costs);

} // namespace dtc::simulate
