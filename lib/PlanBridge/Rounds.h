// Communication inside an op whose own reduction is split.
#pragma once

#include "dtc/Interfaces/Interfaces.h"

#include <optional>

namespace dtc::planbridge {

/// How many all-reduces `op` makes inside where the rounds factor `factor` of `rule` is split, each
/// of one value for each row. These are as many as its decomposition has reductions over that
/// factor. A softmax of x[b,v] over v makes two, the largest and the sum of each row b.
///
/// There is no answer where values of rows aren't all that is reduced (attention reduces products
/// with the values). Nor is there where the op has no decomposition whose rules tell.
std::optional<int> roundsOver(mlir::Operation *op, const sharding::ShardingRule &rule,
                              sharding::FactorId factor);

/// The factors of a row: those of the first operand but for rounds factors.
std::vector<sharding::FactorId> rowFactors(const sharding::ShardingRule &rule);

} // namespace dtc::planbridge
