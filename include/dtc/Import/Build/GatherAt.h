// Positions by several indices at once.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// data[parts[0], parts[1], ...]: each part, of the shape `lead`, has the positions along one of
/// the first dimensions of `data`. Those that aren't indexed follow in the result.
///
///     mask[arange(b)[:, None], positions]      a row's own positions, as Hugging Face's masks
llvm::FailureOr<Tensor> gatherAt(Conversion &node, const Tensor &data,
                                 llvm::SmallVector<Tensor> parts, const Shape &lead);

/// data[b, at[b, j...]]: whether the last position is computed and all others run along the leading
/// dimensions, of `lead` and of `data` alike.
bool indexesRows(const Tensor &data, llvm::ArrayRef<Tensor> parts, const Shape &lead);

} // namespace dtc::import
