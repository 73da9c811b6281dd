// How the blocks of a GPU find the indices of the table rows that they add to (dtc.scatter_add).
//
// A block has some rows. Either each block reads all indices, or one more kernel puts these into a
// bucket for each block before. Of blocks that read all there are fewer where that would be more
// than a sixteenth of what they move (Target/CUDA/KernelPlan.cpp). Which form is taken is decided
// as if there were as many. For a table of 50,304 rows, in blocks of 96:
//
//     indices   all blocks read   buckets are written and read   and a kernel is worth   form
//     1,024     4.3 MB            0.01 MB                        12.6 MB                 all
//     65,536    275 MB            0.7 MB                         12.6 MB                 buckets
//
// The compiler forms kernels by this, and the planner prices them by it.
#pragma once

#include <cstdint>
#include <optional>

namespace dtc::sharding {

struct IndexBuckets {
  int64_t rows, buckets; ///< rows of each; the last one's may be fewer
  int64_t part, parts;   ///< indices that a block sorts; the last one's may be fewer

  /// Elements of the tensor that has them, which are of four bytes.
  int64_t elements() const { return parts * (buckets + 1 + part); }
};

/// Rows that a block adds to, of so many in the table.
int64_t rowsOfBlock(int64_t tableRows);

/// The buckets of so many indices, of so many bytes each. None where blocks had better read all
/// indices.
std::optional<IndexBuckets> bucketsOf(int64_t tableRows, int64_t indices, int64_t indexBytes);

} // namespace dtc::sharding
