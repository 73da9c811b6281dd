// The interfaces by which phases see ops.
#pragma once

#include "dtc/Sharding/Rule.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include <functional>

namespace dtc {

/// What ShardingRuleOpInterface::buildLocal may ask about the shard it builds.
struct LocalContext {
  const sharding::ShardingRule &rule;
  const sharding::OpSharding &sharding;
  const sharding::Mesh &mesh;
  /// Start of this rank's shard of a factor, in elements, as a tensor<i64>
  /// value; null when the factor is not split.
  std::function<mlir::Value(mlir::OpBuilder &, sharding::FactorId)> offset;
};

/// Clones `op` onto `operands` with `resultTypes`.
llvm::SmallVector<mlir::Value> cloneLocal(mlir::Operation *op, mlir::OpBuilder &builder,
                                          mlir::ValueRange operands,
                                          mlir::TypeRange resultTypes);

} // namespace dtc

#include "dtc/Interfaces/CostInterface.h.inc"
#include "dtc/Interfaces/DifferentiableInterface.h.inc"
#include "dtc/Interfaces/ShardingRuleInterface.h.inc"
