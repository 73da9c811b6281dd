// Predictions from what a caller has found already; see Prediction.h.
#pragma once

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Predict/Prediction.h"

namespace dtc::plan {

struct PlannedModel {
  const Problem &problem; ///< as its planner saw it
  const ProblemFacts &facts;
  const std::vector<Block> &blocks; ///< of the whole model
  int64_t numMicrobatches = 1;
  /// The problem, and the ops and arguments of its plan, are a folded model's; stages
  /// and recomputed blocks are the whole one's.
  const Folding *folding = nullptr;
};

/// nullopt where the plan treats blocks of a folded model differently that are alike.
std::optional<Prediction> predict(const PlannedModel &planned, const Plan &plan,
                                  const Cluster &cluster, const Workspace *workspace);

} // namespace dtc::plan
