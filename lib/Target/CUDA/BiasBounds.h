// Whether what is added to scores of attention is certain to be finite.
//
// A row of scores that are all -infinity gives zeros (dtc.attention), but no number in cuDNN. So it
// takes only biases that can't be infinite, by what they are computed of: masks that choose between
// constants are, whatever is masked.
#pragma once

#include "mlir/IR/Value.h"

namespace dtc::cuda {

/// False where it isn't known, as of what the function is given.
bool isCertainlyFinite(mlir::Value value);

} // namespace dtc::cuda
