// Parts of a sequence in zig-zag order, so that a causal mask leaves every rank equally much to do.
//
// A query sees the keys up to its own, so that the last of n parts in order has most to compute. In
// zig-zag a dimension is cut into 2 n chunks, and rank r has the chunks r and 2 n - 1 - r:
//
//   chunks of <cp=3>     0    1    2    3    4    5
//   rank                 0    1    2    2    1    0
//
// A mesh says of one axis that all that it splits lies so:
//
//   dist.mesh @mesh ["dp" = 2, "cp" = 3] {dist.zigzag = #dist.axes<{"cp"}>}
//
// Only the partitioner knows it (lib/Partition/Zigzag.h). What enters and leaves functions is whole
// over the axis, but for what goes from stage to stage.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dtc::dist {

inline constexpr llvm::StringLiteral kZigzag = "dist.zigzag";

} // namespace dtc::dist
