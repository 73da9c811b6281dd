// @update of one pipeline rank.
//
// Of two stages that share the weight w, where stage 1 has v beside it and the loss:
//
//   whole    %l, %c, %f, %n = dtc.step_vector loss, count, bad(dw) + bad(dv), |dw|^2 + |dv|^2
//            %norm = sqrt %n   ... new w, new v, %l / %c
//   rank 0   %dw' = dist.stage_sum %dw stages [0, 1]
//            %l, %c, %f, %n0, %n1 = dist.stage_sum
//                (dtc.step_vector 0, 0, bad(dw'), |dw'|^2, 0) stages [0, 1]
//            %norm = sqrt (%n0 + %n1)          ... new w, %l / %c
//   rank 1   %dw' = dist.stage_sum %dw stages [0, 1]
//            %l, %c, %f, %n0, %n1 = dist.stage_sum
//                (dtc.step_vector loss, count, bad(dv), 0, |dv|^2) stages [0, 1]
//            ...
//
// Partitioning lets the last sum be one over all ranks. Squares of each stage are a number of their
// own, so that the norm doesn't depend on which stages lie on one rank.
#pragma once

#include "StepGraph.h"

#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Schedule/SumRounds.h"

#include "llvm/ADT/StringMap.h"

#include <string>

namespace dtc::stages {

/// Where the parameters that a step trains are.
struct TrainedParameter {
  std::string name;
  llvm::SmallVector<int> stages; ///< that have a term of its gradient, ascending
  /// In which the ranks that hold it add these up.
  std::vector<schedule::SumRound> rounds;
  llvm::SmallVector<int> holders;
  bool apart = false;             ///< holders have different meshes
};

/// Of a step whose stages' functions are there.
struct UpdateFacts {
  std::vector<TrainedParameter> parameters;
  bool apart = false; ///< stages have different meshes
  int lossRank = 0;
  llvm::StringMap<int> countedOn; ///< the rank that counts a layer's lost rows
};

/// Which parameter each part of a step's @update is about: found once for all ranks.
struct UpdateParts {
  /// About no parameter. Otherwise a place in UpdateFacts::parameters.
  static constexpr int kNone = -1;

  struct Role {
    graph::RoleAttr role;
    int owner = kNone;
  };
  llvm::SmallVector<Role> arguments, results;
  /// All but the sums of the step vector, which each rank makes of its own terms.
  llvm::SmallVector<std::pair<mlir::Operation *, int>> ops;
  graph::StepVectorOp vector;
  /// What stages add to numbers of the vector.
  struct Term {
    mlir::Value value;
    int owner = kNone;
  };
  llvm::SmallVector<Term> nonFinite, squares;

  static mlir::FailureOr<UpdateParts> of(const StepGraph &step, const UpdateFacts &facts);
};

mlir::LogicalResult buildUpdate(const StepGraph &step, const UpdateFacts &facts,
                                const UpdateParts &parts, int rank, mlir::ModuleOp module);

} // namespace dtc::stages
