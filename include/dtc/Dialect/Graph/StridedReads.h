// Ops whose result is a part of their operand, in another order, or repeated.
#pragma once

#include "dtc/Sharding/Strides.h"

#include "mlir/IR/Operation.h"

namespace dtc::graph {

/// What the result of a slice, transpose or broadcast reads of its operand, by dimension. Empty for
/// other ops: where a reshape's elements lie depends on the strides of what it reads.
std::vector<sharding::DimRead> stridedReads(mlir::Operation *op);

} // namespace dtc::graph
