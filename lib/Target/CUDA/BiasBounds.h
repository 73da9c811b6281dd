// How large what is added to scores of attention can be.
//
// A row of scores that are all -infinity gives zeros (dtc.attention), but no number in cuDNN. Of
// scores near to the end of the type's range, a sum's logarithm is lost in rounding. So cuDNN takes
// only biases that are small by what they are computed of: positions times a slope are.
#pragma once

#include "mlir/IR/Value.h"

namespace dtc::cuda {

/// Whether no magnitude is above `most`. False where it isn't known, as of what the function is
/// given.
bool isCertainlyWithin(mlir::Value value, double most);

} // namespace dtc::cuda
