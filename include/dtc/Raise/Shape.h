// Sizes of tensors and walks over their elements.
#pragma once

#include "mlir/IR/Types.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace dtc::raise {

using Shape = llvm::SmallVector<int64_t>;

/// Most elements of what is computed at compile time. A larger mask stays an expression, from which
/// it is proven causal faster than from its elements.
inline constexpr int64_t kMaxEvaluated = 1 << 18;

/// The largest number where no number fits.
int64_t product(llvm::ArrayRef<int64_t> sizes);

/// Calls `visit` for every index within `shape`, row-major.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// Wraps to the width of an integer type.
int64_t wrapTo(mlir::Type element, int64_t value);

} // namespace dtc::raise
