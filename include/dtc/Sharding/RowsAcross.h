// How many columns of a row a kernel reads across: from a tensor whose neighbours are of other
// rows.
//
// Convolutions have channels outermost, and norms beside them innermost. What is turned between
// them and summed up by channel could be one kernel. For [8, 56, 56, 96] to [8, 96, 56, 56] that
// has 96 rows of 25,088 columns. Each reads 4 bytes of every sector of 32, so that all of them move
// the tensor eight times. So it is turned by a kernel, and summed up by another one that reads it
// along. The norm of each position has 96 columns. Rows that lie side by side share sectors there.
//
// The compiler forms kernels by this, and the planner prices them by it.
#pragma once

#include <cstdint>

namespace dtc::sharding {

inline constexpr int64_t kMostColumnsAcross = 2048;

} // namespace dtc::sharding
