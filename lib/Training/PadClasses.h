// Room for a number of classes that the ranks can share.
//
// GPT-2 has 50,257 classes, which no two ranks can divide, and whose rows no GPU reads 16 bytes at
// a time. Its head and the embedding that is tied to it get rows that no file has:
//
//   logits = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]        w: 50257x768
//   becomes
//   all    = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]        w: 50304x768, file 50257x768
//   logits = select(iota < 50257, all, the smallest number)
//
// It is exact: the exponential of what is selected there is 0, and so are its gradient and that of
// the new rows. Megatron-LM pads vocabularies likewise (--make-vocab-size-divisible-by).
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <optional>

namespace dtc::training {

struct PaddedClasses {
  mlir::Value logits; ///< of all rows
  int64_t classes;    ///< how many of them are classes: the first
};

/// Pads the classes of the logits that a function computes, and its parameters, to a multiple.
/// There is none where a 64th would be more than added to them. Nor is there where something else
/// than products and sums with parameters makes the logits, or reads these parameters.
std::optional<PaddedClasses> padClasses(mlir::func::FuncOp function, mlir::Value logits,
                                        int64_t multiple);

} // namespace dtc::training
