// From an estimate to a complete plan.
#pragma once

#include "dtc/Plan/Predict/Predict.h"
#include "dtc/Plan/Search/Estimate.h"

namespace dtc::plan {

struct CompletePlan {
  Plan plan;
  bool folded = false; ///< the plan's ops and arguments are the folded model's
  Prediction predicted;
  SolverOptions solver; ///< what the sharding was solved for
  double gap = 0; ///< of the sharding solver
  int64_t globalBatch() const {
    return plan.degrees.microBatch * plan.degrees.dataRanks() * plan.degrees.numMicrobatches;
  }
};

/// Solves the sharding with all axes of the mesh, places stages on devices and
/// stores parameters as ZeRO has it.
Result<CompletePlan> completePlan(const Problem &problem, const Cluster &cluster,
                                  ShardLibrary &library, const Estimate &estimate,
                                  MemoryDetail detail = MemoryDetail::Exact);

/// What was planned, as one call of the plan has it; a folded plan becomes that of
/// the whole model.
Result<Problem> unfoldPlan(ShardLibrary &library, CompletePlan &completed);

/// Gives the stages of a group other shardings.
void setModelSharding(Plan &plan, size_t group, Plan solved);
/// Gives other shardings under the same degrees all else that a plan says.
void keepRest(const Plan &plan, Plan &other);

} // namespace dtc::plan
