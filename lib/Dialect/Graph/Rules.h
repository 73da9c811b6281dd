// How the ops write their sharding rules down.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Sharding/Rule.h"

namespace dtc::graph {

using sharding::FactorId;
using sharding::FactorKind;
using sharding::OpCost;
using sharding::OpKind;
using sharding::RuleBuilder;
using sharding::ShardingRule;

/// A rule under construction for one op.
///
///   OpRule rule(op, units);
///   auto dims = rule.factors(shapeOf(input));
///   rule.operand(0, dims).result(0, dims).linear({0});
///   return rule.build();
///
/// Factors of size 1 may be named like any other. They reach the rule only where units are kept, so
/// what reads a finished rule looks factors up by dimension.
class OpRule {
public:
  OpRule(mlir::Operation *op, UnitFactors units);
  FactorId factor(int64_t size, FactorKind kind = FactorKind::Parallel,
                  sharding::ReduceKind reduce = sharding::ReduceKind::Sum);
  llvm::SmallVector<FactorId> factors(llvm::ArrayRef<int64_t> sizes,
                                      FactorKind kind = FactorKind::Parallel);
  /// Appends dimensions, one factor each.
  OpRule &operand(unsigned index, llvm::ArrayRef<FactorId> dims);
  OpRule &result(unsigned index, llvm::ArrayRef<FactorId> dims);
  /// Appends one dimension of several factors, major to minor.
  OpRule &operandCompound(unsigned index, llvm::ArrayRef<FactorId> factors);
  OpRule &resultCompound(unsigned index, llvm::ArrayRef<FactorId> factors);
  OpRule &linear(std::vector<int> operands);
  ShardingRule build() { return std::move(rule); }

private:
  std::vector<FactorId> inRule(llvm::ArrayRef<FactorId> factors) const;
  ShardingRule rule;
  UnitFactors units;
  llvm::SmallVector<FactorId> ids; ///< the rule's id by ours, -1 for what is omitted
};

/// Where this rank's shard of dimension `dim` begins, given that no more than
/// one factor of it is split; null where it is not split.
mlir::Value shardOffset(mlir::OpBuilder &builder, const LocalContext &context,
                        const sharding::TensorFactors &dims, int64_t dim);
/// Global indices as indices into a shard that begins at `offset` (tensor<i64>).
mlir::Value shiftIndices(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value indices,
                         mlir::Value offset);

} // namespace dtc::graph
