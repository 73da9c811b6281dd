// Long rows that stay on the multiprocessor from one pass to the next.
//
//     pass 1   x := row of the operand, from memory; kept; maximum and sum
//     pass 2   x := what is kept; result := f(x, maximum, sum)
//
// A thread reads only what it has kept itself, so that threads needn't meet. Of a loss, whose
// gradient overwrites the logits, memory then moves each logit twice instead of three times.
#pragma once

#include "KernelPlan.h"

namespace dtc::cuda {

/// Whether all passes have the same units of these columns, so that each thread meets its own
/// again.
bool haveColumns(const BodyInfo &info, int64_t columns, int64_t rows);

/// Has a block keep the operands that several passes read, as far as the memory of all GPUs' blocks
/// has room for their rows of so many columns.
void planKeptRows(const BodyInfo &info, int64_t columns, KernelPlan &plan);

} // namespace dtc::cuda
