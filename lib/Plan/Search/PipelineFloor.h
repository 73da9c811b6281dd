// What no pipeline of these degrees falls below, however a model is cut into its stages.
//
// Rank k begins when a microbatch has come to it through the stages before it. It has all of its
// own work to do, m microbatches of t_k seconds. With 1F1B the last of them goes back through the
// same stages: a step takes at least
//
//   t_0 + ... + t_{k-1} + m t_k
//
// The least such step, the sum of all t being given, makes these equal for all k. Two ranks, 12 s a
// microbatch and m = 3 give t_0 = 7.2, t_1 = 4.8 and 21.6 s. Equal stages take 24 s. Of several
// chunks a rank each is passed by itself. Where a schedule splits the backward pass (`zb`), only
// the forward passes before a rank are certain to keep it waiting. Its time is f_0 + ... + f_{k-1}
// + m t_k. While the last microbatch goes back, the rank computes the gradients of weights that it
// left for later, of l_k microbatches. That may end before the way back does, so that a step takes
// at least
//
//   f_0 + b_0 + ... + f_{k-1} + b_{k-1} + m t_k - l_k w_k
//
// too (w: gradients of weights, b: the rest of backward passes).
#pragma once

#include "dtc/Plan/Predict/UnitCosts.h"

namespace dtc::plan {

/// Seconds of a step whose microbatches cost what `unitCosts` says, without what is done once
/// a step.
double pipelineFloor(const UnitCosts &unitCosts, const Degrees &degrees);

} // namespace dtc::plan
