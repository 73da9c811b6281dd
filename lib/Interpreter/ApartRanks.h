// What the ranks of a pipeline do together where their meshes differ, so that no one mesh can have
// their functions joined (JoinRanks.h). Each function is evaluated up to its next sum over stages,
// and begins anew with what all have added up:
//
//   rank 0   %a = ..., %t = dist.stage_sum %a apart, return f(%t)      devices 0, 1
//   rank 1   %b = ..., %t = dist.stage_sum %b apart, return g(%t)      device 2
//
//   %a on 0 and 1, %b on 2; their sum is %t; f(%t) on 0 and 1, g(%t) on 2
#pragma once

#include "Decompositions.h"
#include "Kernels.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Interpreter/Interpreter.h"

namespace dtc::interpreter {

/// A function of one rank of the pipeline, and its arguments by device of the rank's mesh.
struct RankCall {
  int rank = 0;
  mlir::func::FuncOp function;
  const sharding::Mesh *mesh = nullptr;
  std::vector<Tensors> inputs;
};

/// The results of each call, by device.
mlir::FailureOr<std::vector<std::vector<Tensors>>> evaluateApart(std::vector<RankCall> calls,
                                                                 Decompositions &decompositions);

} // namespace dtc::interpreter
