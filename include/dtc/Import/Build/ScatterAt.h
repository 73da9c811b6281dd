// Elements written at positions that are computed at run time.
//
// Each element of the result looks for who writes it: it compares its position with all indices of
// its row. So gradients flow to what is written and to what stays, by the ops that there are. It
// costs as many comparisons as a row has elements times indices.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// What becomes of an element that is written to. Of several that are written to one place, the
/// last one replaces.
enum class Write { Replace, Add, Multiply, Max, Min };

/// The operator of `binary` that combines what is there with what is written; none for Replace.
llvm::StringRef combinationOf(Write write);

/// `result[..., at[..., j, ...], ...]` becomes `updates[..., j, ...]`, along `axis`. The shape of
/// `at` and of `updates` is that of `data` but for this axis. Negative positions count from the
/// end. A row of floats with a position outside is NaN; integers are refused where that may be.
llvm::FailureOr<Tensor> scatterAlong(Conversion &node, const Tensor &data, mlir::Value at,
                                     const Tensor &updates, int64_t axis, Write write);

/// Whole rows: `result[at[j, 0], at[j, 1], ...]` becomes `updates[j]`, for as many leading
/// dimensions of `data` as there are components. All is NaN where a position is outside.
llvm::FailureOr<Tensor> scatterRows(Conversion &node, const Tensor &data,
                                    llvm::ArrayRef<mlir::Value> components, const Tensor &updates,
                                    Write write);

} // namespace dtc::import
