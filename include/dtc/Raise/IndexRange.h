// The least and the greatest value that a computed integer can have (interval arithmetic).
#pragma once

#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace dtc::raise {

/// Both ends are included.
struct IndexRange {
  int64_t low = 0, high = 0;
};

/// Bounds of an integer tensor's elements as far as the ops that compute it tell: constants, iota,
/// the positions of top_k, arithmetic on them. With `i` between 0 and 5,
///
///     arith.subi(arith.muli(i, 2), 3)      lies between -3 and 7
///
/// None where an input of the model decides, or where 64 bits don't hold the bounds.
std::optional<IndexRange> rangeOf(mlir::Value value);

/// Whether its elements are truths: 0 or 1 here, but 0 or -1 where an op sees signed numbers.
bool isBit(mlir::Value value);

} // namespace dtc::raise
