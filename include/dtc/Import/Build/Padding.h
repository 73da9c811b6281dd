// Padding by elements of the tensor itself.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// What stands around [a b c]: the outermost element (a a [a b c] c c), a mirror image without it
/// (c b [a b c] b a), or the tensor once more (b c [a b c] a b).
enum class PadMode { Edge, Reflect, Wrap };

/// Pads each dimension by so many elements before and behind it, none of them below 0.
llvm::FailureOr<mlir::Value> padFromElements(Conversion &node, mlir::Value value,
                                             llvm::ArrayRef<int64_t> low,
                                             llvm::ArrayRef<int64_t> high, PadMode mode);

} // namespace dtc::import
