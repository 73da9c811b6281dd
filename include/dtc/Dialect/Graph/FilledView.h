// Parameters that the graph sees longer than files have them.
//
// Eight ranks share the 12 heads of a projection as 16. Files have 768x768 elements, which fill
// 12x64x768 of the view 16x64x768; the rest is 0 at first, and in no file:
//
//   dtc.parameter trainable @q : tensor<16x64x768xf32> file tensor<768x768xf32>
//       {dtc.filled = array<i64: 12, 64, 768>}
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::graph {

/// What of a parameter's view files have: all of it unless said otherwise, or as much as the file's
/// shape says where that has as many dimensions.
llvm::ArrayRef<int64_t> filledOf(ParameterOp parameter);
/// Makes a parameter's view longer; what was filled stays so.
void makeLonger(ParameterOp parameter, mlir::RankedTensorType type);

} // namespace dtc::graph
