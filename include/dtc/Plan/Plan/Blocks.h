// Repeated blocks (layers) of a model, found in the graph itself.
//
// Ops of equal kind differ only in which values they read. The kinds of the
// forward ops in order, say
//
//   gather | norm proj attn proj add norm up act down add | norm proj ... add | norm head loss
//
// contain runs that repeat with a period. A run may begin at any op of the
// period; that one is taken before which the least bytes cross.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

struct Block {
  OpId first = 0, last = 0; ///< forward ops, inclusive
  bool operator==(const Block &) const = default;
};

/// In order; none where nothing repeats. Ops between belong to no block.
std::vector<Block> findBlocks(const Problem &problem, const ProblemFacts &facts);

/// Bytes that are held before each forward op, by op and with one entry more. They are of values
/// that are computed earlier, and read by it or after it in the forward pass. Tables that depend on
/// no data don't count.
std::vector<int64_t> crossingBytes(const Problem &problem, const ProblemFacts &facts);

} // namespace dtc::plan
