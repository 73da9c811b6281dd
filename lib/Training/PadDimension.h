// Room along a dimension that the ranks can't share.
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
//
// Features between two products are padded for axes that don't divide them. 1000 on tp=3:
//
//   %h = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]            w: 1002x64, file 1000x64
//   %a = dtc.activation gelu %h                                 two more columns, of zeros
//   %y = dtc.contract %a [0, 2], %v [1, 2] -> [0, 1]            v: 64x1002, file 64x1000
//
// What is added to both weights is 0 at first. So are its gradients, as each is a product with
// zeros. An update leaves zeros as they are, and a norm doesn't count them. Adam without an epsilon
// would divide zeros by zeros: then nothing is padded.
//
// So are heads. Of 4 queries, two share each head of keys; tp=3 has 3 of keys, and 6 of queries:
//
//   %q = dtc.contract %x [0, 1, 4], %wq [2, 3, 4] -> [0, 1, 2, 3]      wq: 6x16x64, file 64x64
//   %o = dtc.attention %q, %k, %v                                      k, v: 3 heads
//   %y = dtc.contract %o [0, 1, 3, 4], %wo [2, 3, 4] -> [0, 1, 2]      wo: 64x6x16, file 64x64
//
// The scores of an added head are all alike, and its values are zeros, so that %o is 0 there.
// As %wo is too, nothing flows back: neither into the values nor, through the scores, further.
//
// Scores may be products and a softmax, with a bias of a table, and be dropped (T5, GPT-2):
//
//   %s = dtc.contract %q [0, 2, 1, 4], %k [0, 3, 1, 4] -> [0, 1, 2, 3]    q, k: 6 heads
//   %b = dtc.gather %table, %distances axis 0                table: 32x6, file 32x4
//
// A table that several layers look up pads the heads of all of them.
#pragma once

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Training/Train.h"

namespace dtc::training {

/// Whether an update leaves elements without a gradient at zero, in fp32.
bool leavesZeros(const TrainOptions &options);

struct PaddedClasses {
  mlir::Value logits; ///< of all rows
  int64_t classes;    ///< how many of them are classes: the first
};

/// Pads the classes of the logits that a function computes, and its parameters, to a multiple.
/// There is none where a 64th would be more than added to them. Nor is there where anything makes
/// the logits but products and sums with parameters, and arithmetic, or else reads these
/// parameters.
std::optional<PaddedClasses> padClasses(mlir::func::FuncOp function, mlir::Value logits,
                                        int64_t multiple);

/// Logits with a number in place of all that isn't a class.
mlir::Value replaceBeyond(graph::TensorBuilder &b, mlir::Value logits, int64_t classes,
                          double beyond);

/// Pads features that products with parameters make, and that such products alone read behind
/// arithmetic; and heads of attention between such products, which may be turned by their places
/// and normalized head by head, have biases of a table, and scores that are dropped. No others are
/// padded, nor those of which the arithmetic makes anything but 0 of 0. Where no price is known, a
/// 64th is the most that is added.
void padHiddenFeatures(mlir::func::FuncOp function, const HiddenPadding &padding);

} // namespace dtc::training
