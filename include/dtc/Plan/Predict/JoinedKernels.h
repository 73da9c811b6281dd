// Steps that dtc's own programs compute by one kernel.
#pragma once

#include "dtc/Plan/Predict/RankExecution.h"

namespace dtc::plan {

/// Lets one step of the backward pass make what one kernel makes (Kernels/Clusters.h), as it may
/// write over all that it reads last. Other programs stay as they are.
///
/// The gradient of an elementwise op is computed beside the op itself, where that is computed again
/// and all that the gradient reads is there. Of h = f(x), x' = h' f'(x) in one pass, h lies in the
/// place of x, x' in that of h'.
///
/// Two gradients are computed by one kernel that read a tensor of their size in common. Those of
/// h = silu(g) u take the places of h' and g.
void joinKernels(RankExecution &execution, const Problem &problem, const Software &software);

} // namespace dtc::plan
