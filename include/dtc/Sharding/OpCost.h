// What an op says of its cost, beside what follows from its types and its sharding rule.
//
// For attention of 8 queries and 8 keys of 2 heads of 16 features, of one sample:
//
//   kind     Attention
//   flops    2 * 2 * 8 * 8 * (16 + 16)   products of queries and keys, and with the values
//   scratch  2 * 8 * 8 * 4               bytes: probabilities beside the scores
//   saved    2 * 8 * 8 * 4 + ...         bytes: the scores, for the backward pass
//   causal   true                        half of the products needn't be computed
//   window   4                           nor those with keys before the last four
//
// For a SiLU of any shape, which divides by what has an exponential:
//
//   kind     Elementwise
//   dear     true
#pragma once

#include <cstdint>

namespace dtc::sharding {

enum class OpKind : uint8_t {
  Contraction,   ///< matrix products and convolutions: a library call
  Attention,     ///< contractions around a softmax
  Elementwise,   ///< fuses with its neighbours
  View,          ///< moves no bytes (reshape)
  Reindex,       ///< reads the same elements elsewhere (transpose, slice, broadcast); fuses
  Join,          ///< puts tensors together (concat, pad); fuses
  Reduction,     ///< reads much, writes little; fuses with what it reads
  Normalization, ///< layer and RMS norm and their gradients
  Loss,          ///< cross entropy and its gradient
  Lookup,        ///< gather, scatter: reads and writes only what is addressed
  GradientSum,   ///< adds gradients of one value; its terms may be laid out differently
  Other
};

/// Bytes and operations are of the whole op, before any sharding.
struct OpCost {
  OpKind kind = OpKind::Other;
  double flops = 0;    ///< of the contractions inside; a multiplication and an addition are two
  double scratch = 0;  ///< bytes of temporaries inside
  double saved = 0;    ///< bytes of those that stay for the op's own backward pass
  bool dear = false; ///< elementwise: more than sums and products, as an exponential or a division
  bool causal = false; ///< attention: a query sees only keys up to its own
  int64_t window = 0;  ///< of causal attention: how many of these; 0: all
};

} // namespace dtc::sharding
