// Limits of counts: how many tokens an expert of fixed capacity takes.
//
//   %before = dtc.cumsum %chosen 1 exclusive     how many tokens an expert has before each one
//   %kept   = arith.cmpi slt, %before, %c12      a limit of 12
//   %at     = arith.minsi %before, %c11          another one, of 11
//   %slot   = arith.cmpi eq, %at, %iota          the iota's dimension has a place for each of 12
//
// Such numbers belong to the size of what is counted. With a quarter of the tokens an expert that
// takes as many as before is never full.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <vector>

namespace dtc::graph {

/// What is counted: the elements of a tensor of zeros and ones along some dimensions.
struct Counted {
  mlir::Value truths;
  llvm::SmallVector<int64_t> dims;
};

/// A number that a count is compared with, or bounded by. It is at least 2, and below the number of
/// elements that are counted.
struct CountLimit {
  Counted counted;
  mlir::OpOperand *constant; ///< its value is a splat of `number`
  int64_t number;

  /// Whether its op decides something of each element: it is no minimum or maximum.
  bool isDecision() const;
};

/// A dimension with a place for each number that a count is compared with.
struct CountSlots {
  Counted counted;
  mlir::Value places; ///< an iota
  int64_t dim;
};

struct CountLimits {
  std::vector<CountLimit> limits;
  std::vector<CountSlots> slots;
};

/// Of a function of one block, in the order of its ops.
CountLimits findCountLimits(mlir::func::FuncOp function);

} // namespace dtc::graph
