#include "dtc/Sharding/IndexBuckets.h"

#include <algorithm>
#include <limits>

namespace dtc::sharding {

/// The fewer blocks, the fewer times all indices are read. So many run at once on an H100.
static constexpr int64_t kBlocks = 528;
/// Eight for each of 256 threads: a shorter part has a larger share of where buckets begin.
static constexpr int64_t kPart = 2048;
/// What an H100's memory moves in 4 us: of a launch, and of a few blocks that mostly wait.
static constexpr int64_t kLaunchBytes = int64_t(12) << 20;
static constexpr int64_t kEntryBytes = 4;

static int64_t ceilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t rowsOfBlock(int64_t tableRows) {
  return std::max<int64_t>(ceilDivide(tableRows, kBlocks), 1);
}

std::optional<IndexBuckets> bucketsOf(int64_t tableRows, int64_t indices, int64_t indexBytes) {
  const int64_t rows = rowsOfBlock(tableRows), blocks = ceilDivide(tableRows, rows);
  const IndexBuckets buckets{rows, blocks, kPart, ceilDivide(indices, kPart)};
  // A block also reads where its bucket begins and ends in each part.
  const double all = double(blocks) * double(indices) * double(indexBytes);
  const double sorted =
      double(indices) * double(indexBytes) + 2.0 * double(buckets.elements()) * double(kEntryBytes);
  if (rows > std::numeric_limits<int32_t>::max() / kPart || all <= sorted + double(kLaunchBytes))
    return std::nullopt;
  return buckets;
}

} // namespace dtc::sharding
