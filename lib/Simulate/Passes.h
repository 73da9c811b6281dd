// What a call of a stage costs: shared by the simulator and its lower bound.
#pragma once

#include "dtc/Simulate/Simulate.h"

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

/// Prologue and update: everything in a row.
inline double serialSeconds(const Work &work) {
  return work.compute + work.blocking + work.overlapped;
}

} // namespace dtc::simulate
