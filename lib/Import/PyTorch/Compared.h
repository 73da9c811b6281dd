// What losses compare, and how they are reduced.
#pragma once

#include "AtenConverter.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Loss.h"

namespace dtc::import {

/// Arguments of one shape and one type of floats, and what builds arithmetic on them. What is left
/// out is null.
struct Compared {
  graph::TensorBuilder build;
  llvm::SmallVector<mlir::Value> of;
};
llvm::FailureOr<Compared> compared(AtenConverter &node, llvm::ArrayRef<llvm::StringRef> names);

/// PyTorch numbers reductions: none, mean, sum.
llvm::FailureOr<LossReduction> reductionOf(AtenConverter &node);
/// The node's result is what its reduction makes of the elements.
llvm::LogicalResult defineReduced(AtenConverter &node, mlir::Value elements);

/// log(1 + e^x).
mlir::Value softplus(graph::TensorBuilder &b, mlir::Value x);

} // namespace dtc::import
