// What a call of a stage costs: shared by the simulator and its lower bound.
#pragma once

#include "dtc/Simulate/Simulate.h"

namespace dtc::simulate {

inline Work workOf(const StageCost &stage, pipeline::Pass pass) {
  switch (pass) {
  case pipeline::Pass::Forward:
    return stage.forward;
  case pipeline::Pass::Backward:
    return stage.recompute + stage.inputGrad + stage.weightGrad;
  case pipeline::Pass::InputGrad:
    return stage.recompute + stage.inputGrad;
  case pipeline::Pass::WeightGrad:
    return stage.weightGrad;
  }
  return {};
}

/// Prologue and update: everything in a row.
inline double serialSeconds(const Work &work) {
  return work.compute + work.blocking + work.overlapped;
}

} // namespace dtc::simulate
