// Rewrites one function to local shapes.
#pragma once

#include "OpForms.h"

namespace dtc::partition {

/// One form in which a value is there: the shard under `sharding`.
struct LocalShard {
  const sharding::TensorSharding *sharding = nullptr; ///< in the localizer's pool
  mlir::Value local;
  bool gathered = false; ///< from parts, for the forward pass
};

/// Goes through a function's ops in order and builds each on its shards. They are built in a new
/// block that takes the old one's place at the end. The old ops stay until then: they tell the
/// global types and how a value can be built again.
class Localizer {
public:
  /// `regather`: what the forward pass gathered is gathered again for the backward pass.
  Localizer(mlir::func::FuncOp func, const NamedMesh &mesh, bool regather)
      : func(func), mesh(mesh), regather(regather), forms(mesh, pool) {}

  /// Arguments have the sharding that their dist.sharding says, results get one.
  mlir::LogicalResult run();

private:
  using Sharding = sharding::TensorSharding;

  // Arguments and results (Signature.cpp).
  mlir::LogicalResult addArguments(mlir::OpBuilder &builder);
  mlir::LogicalResult resolveArguments(mlir::OpBuilder &builder);
  mlir::LogicalResult localizeReturn(mlir::OpBuilder &builder, mlir::func::ReturnOp op);
  mlir::FailureOr<const Sharding *> wantedResult(unsigned index, mlir::Value value);
  bool mayCross(graph::RoleAttr role, const Sharding &sharding) const;
  /// Null without an attribute.
  mlir::FailureOr<const Sharding *> shardingFrom(mlir::Attribute attr, const llvm::Twine &what);
  /// The shard's type; reports a sharding that doesn't fit the tensor.
  mlir::FailureOr<mlir::RankedTensorType> checkedLocalType(mlir::RankedTensorType type,
                                                           const Sharding *sharding,
                                                           const llvm::Twine &what);

  // Ops (Localizer.cpp).
  mlir::LogicalResult localize(mlir::OpBuilder &builder, mlir::Operation *op, bool allowRounds);
  const OpForm &choose(mlir::Operation *op, OpClass &alike, bool allowRounds);
  const OpForm &followOperands(mlir::Operation *op, OpClass &alike, bool allowRounds);
  mlir::LogicalResult build(mlir::OpBuilder &builder, mlir::Operation *op,
                            const sharding::ShardingRule &rule, const OpForm &form);
  mlir::LogicalResult buildDecomposed(mlir::OpBuilder &builder, mlir::Operation *op,
                                      const OpForm &form);

  // Sums (SumTerms.cpp).
  mlir::LogicalResult buildSum(mlir::OpBuilder &builder, graph::SumOp op,
                               const Sharding &target);
  const LocalShard &source(mlir::Value term, const Sharding &target) const;
  mlir::LogicalResult buildAccumulation(mlir::OpBuilder &builder, graph::SumOp op,
                                        mlir::BlockArgument accumulator);

  // Shards (LocalShards.cpp).
  void define(mlir::Value value, const Sharding *sharding, mlir::Value local,
              bool gathered = false);
  /// One that was gathered for the forward pass only where there is no other.
  const LocalShard *find(mlir::Value value, const Sharding &sharding) const;
  /// The cheapest reshard from the forms in which a value is there; `again`: but the gathered ones.
  struct Way {
    LocalShard from;
    std::vector<sharding::ReshardStep> steps;
  };
  std::optional<Way> cheapestWay(mlir::Value value, const Sharding &target, bool again) const;
  /// The shard that ops follow: a complete one rather than a pending one.
  const LocalShard &current(mlir::Value value) const;
  bool isPendingSum(mlir::Value value, sharding::AxisId axis) const;
  /// The value under `target`, by the cheapest reshard where it isn't there yet.
  mlir::FailureOr<mlir::Value> fetch(mlir::OpBuilder &builder, mlir::Value value,
                                     const Sharding &target, mlir::Operation *user);
  bool rebuild(mlir::OpBuilder &builder, mlir::Value value, const Sharding &target);
  bool isRebuildable(mlir::Operation *op);
  bool isConstantExpression(mlir::Operation *op);

  mlir::func::FuncOp func;
  const NamedMesh &mesh;
  bool regather;
  ShardingPool pool;
  OpForms forms;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<LocalShard, 2>> shards;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars; ///< of values that are no tensors
  llvm::DenseMap<mlir::Operation *, bool> constantExpressions;
  /// Arguments that take the sharding of the first term that is added to them.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> accumulators;
  std::vector<const Sharding *> argumentShardings; ///< null: not known yet
  llvm::DenseMap<mlir::Attribute, const Sharding *> knownShardings;
  /// Of signatures: those that were found to fit.
  llvm::DenseMap<std::pair<mlir::Type, const Sharding *>, mlir::RankedTensorType> knownTypes;
};

} // namespace dtc::partition
