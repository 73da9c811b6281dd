// Which keys a mask of attention lets a query see, as far as its expression tells.
//
// Exporters compute masks from positions. That of a window of 128 keys adds to the scores
//
//   mask[i,j] = j <= i and j > i - 128 ? 0 : -inf        the band {upper = 0, reach = 128}
//
// in any order and as any comparison, spread over more dimensions, or as a sum of such masks.
#pragma once

#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace dtc::raise {

/// Whether a constant number hides a key when added to its score.
bool hidesKey(double value);

/// A query i sees the keys j <= i + upper and j > i - reach; all on a side that has no bound.
struct MaskBand {
  std::optional<int64_t> upper, reach;
};

/// Of a term [..., s, t] of attention scores. The term adds 0 to the scores of the keys within and
/// hides all others. None where that doesn't follow from its expression.
std::optional<MaskBand> bandOf(mlir::Value term, int64_t queryDim, int64_t keyDim);

} // namespace dtc::raise
