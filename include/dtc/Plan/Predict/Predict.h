// Predictions from what a caller has found already; see Prediction.h.
#pragma once

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Predict/Prediction.h"

#include <cstdint>
#include <optional>

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

/// How exactly the memory is told that a caching allocator holds. It is replayed for each number of
/// tensors that variables may hold. A search drops plans that don't fit, and needs no more of them.
enum class MemoryDetail : uint8_t {
  Exact,
  IfItFits,     ///< of plans that don't fit only that it is more than there is
  WhetherItFits ///< of plans that fit, too, less than is held: what is held at least
};

/// nullopt where the plan treats blocks of a folded model differently that are alike.
std::optional<Prediction> predict(const PlannedModel &planned, const Plan &plan,
                                  const Cluster &cluster, const Workspace *workspace,
                                  MemoryDetail detail = MemoryDetail::Exact);

} // namespace dtc::plan
