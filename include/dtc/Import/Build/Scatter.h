// Elements and slices written at positions.
//
// At positions known while compiling, what is written is looked up. The result is a gather, at
// constant positions, of what was there and what is written. So gradients flow to both. Where a
// reduction meets a position several times, there is a round for each time. For positions of run
// time see ScatterAt.h.
#pragma once

#include "dtc/Import/Build/ScatterAt.h"

namespace dtc::import {

/// `result[..., at[..., j, ...], ...]` becomes `updates[..., j, ...]`, along `axis`. Across it
/// there may be fewer positions than elements: the rest stays as it is.
llvm::FailureOr<Tensor> scatterElements(Conversion &node, const Tensor &data, const Tensor &at,
                                        const Tensor &updates, int64_t axis, Write write);

/// `result[components[0][j...], components[1][j...], ...]` becomes `updates[j...]`. Components are
/// integers of one shape, at least one and at most as many as `data` has dimensions.
llvm::FailureOr<Tensor> scatterSlices(Conversion &node, const Tensor &data,
                                      llvm::ArrayRef<Tensor> components, const Tensor &updates,
                                      Write write);

} // namespace dtc::import
