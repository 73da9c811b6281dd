// The largest or smallest elements of each row, and where they are.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

struct TopElements {
  mlir::Value values, indices;
};
llvm::FailureOr<TopElements> topK(Conversion &node, const Tensor &data, int64_t k, int64_t axis,
                                  bool largest);

struct ArgExtreme {
  bool isMax;
  bool last; ///< the last position at which it stands, not the first
  bool keepDims;
};
llvm::FailureOr<Tensor> argExtreme(Conversion &node, const Tensor &data, int64_t axis,
                                   const ArgExtreme &which);
/// The element at that position. It alone has the gradient of equal ones, which ReduceMax divides.
llvm::FailureOr<Tensor> firstExtreme(Conversion &node, const Tensor &data, int64_t axis,
                                     const ArgExtreme &which);

} // namespace dtc::import
