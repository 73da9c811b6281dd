// Dropout as a file has it in training mode.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// Drops elements at random with probability `ratio`; an error where it is none. By which numbers
/// is said when the graph is whole (dtc-key-dropout).
llvm::FailureOr<Tensor> dropout(Conversion &node, const Tensor &input, double ratio);

} // namespace dtc::import
