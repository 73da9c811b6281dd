// Rings: tensors that go round the ranks of an axis, which splits two factors of an op.
//
// Of attention's queries and keys, each rank of cp has a part:
//
//   q[b,s/cp,h,e]  k[b,t/cp,h,e]  v[b,t/cp,h,f] -> o[b,s/cp,h,f]
//
// Every rank's queries meet all keys in as many steps as there are ranks. After each step a rank
// passes its part of the keys on to the next one, and gets that of the one before.
//
//   step    rank 0    rank 1    rank 2
//    0      q0 k0     q1 k1     q2 k2
//    1      q0 k2     q1 k0     q2 k1
//    2      q0 k1     q1 k2     q2 k0
//
// One of the two factors must be a rounds factor, and no tensor may have both. So what operands
// and results look like follows from the rule as ever. Results lack nothing: the steps add it up.
#pragma once

#include "dtc/Sharding/Rule.h"

#include <optional>

namespace dtc::sharding {

struct Ring {
  FactorId stays = -1;   ///< the first operand has it
  FactorId travels = -1; ///< tensors with it go round
  AxisList axes;         ///< those of either
};

/// Whether the same axes may split both factors.
bool mayGoRound(const ShardingRule &rule, FactorId one, FactorId other);

/// The ring of an op under a legal choice, if there is one.
std::optional<Ring> ringOf(const ShardingRule &rule, const OpSharding &sharding);

} // namespace dtc::sharding
