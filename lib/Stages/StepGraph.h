// A planned step as stages see it: who carries out what, and what crosses.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace dtc::stages {

/// Of what is computed wherever it is needed.
inline constexpr int kAnyStage = -1;

/// The loss or a gradient, as the sum of its terms; or what replaces a buffer, or an output, as
/// one term.
struct ReturnedSum {
  graph::RoleAttr role;
  unsigned index = 0;              ///< among the results of the joint function
  mlir::BlockArgument accumulator; ///< null with one microbatch
  llvm::SmallVector<mlir::Value> terms;
  llvm::SmallVector<graph::SumOp> sums; ///< that add these up
  llvm::SmallVector<int> stages;        ///< that have terms, ascending
  /// Several stages have terms: each adds up its own, and @update adds what they have.
  bool isTied() const { return stages.size() > 1; }
};

class StepGraph {
public:
  /// `module`: with a mesh that says where all stages lie.
  static mlir::FailureOr<StepGraph> build(mlir::ModuleOp module);

  mlir::func::FuncOp getJoint() const { return joint; } ///< @loss_and_grads, or @forward
  /// Whether there is more than the forward pass, with a prologue and an update.
  bool trains() const { return update != nullptr; }
  mlir::func::FuncOp getPrologue() const { return prologue; }
  mlir::func::FuncOp getUpdate() const { return update; }
  dist::MeshOp getMesh() const { return meshOp; }
  const std::vector<ReturnedSum> &getReturned() const { return returned; }

  int numStages() const { return static_cast<int>(rankByStage.size()); }
  int numRanks() const { return ranks; }
  int rankOf(int stage) const { return rankByStage[stage]; }
  int chunkOf(int stage) const { return chunkByStage[stage]; }
  /// Of what a stage adds to a sum: other stages of its rank may, too.
  graph::RoleAttr termRole(graph::RoleAttr sum, llvm::ArrayRef<int> stages, int stage) const;

  /// Ops of the stage in order, with those without a stage that it needs.
  llvm::SmallVector<mlir::Operation *> opsOf(int stage) const;
  /// Values that come to a stage from the one before it, and gradients from the one after it. They
  /// stand in the order in which messages have them.
  llvm::ArrayRef<mlir::Value> activationsTo(int stage) const { return activations[stage]; }
  llvm::ArrayRef<mlir::Value> gradientsTo(int stage) const { return gradients[stage]; }
  /// The sharding in which a value crosses: that in which it is made, complete.
  mlir::FailureOr<dist::ShardingAttr> crossingSharding(mlir::Value value) const;
  mlir::FailureOr<sharding::TensorSharding> shardingOf(mlir::Value value) const;
  const sharding::Mesh &getShape() const { return mesh; } ///< of the mesh
  /// World ranks of a stage, whatever mesh it has.
  llvm::ArrayRef<int64_t> devicesOf(int stage) const;

private:
  mlir::LogicalResult findFunctions(mlir::ModuleOp module);
  mlir::LogicalResult findRanks();
  mlir::LogicalResult findStages();
  void placeFirst(mlir::Operation *op);
  mlir::LogicalResult placeChange(mlir::Value value, graph::RoleAttr role);
  mlir::FailureOr<int> stageOfTerm(mlir::Value term, graph::RoleAttr role);
  mlir::LogicalResult findReturned();
  mlir::LogicalResult findCrossings();
  mlir::LogicalResult findCrossing(mlir::OpResult value, int stage, bool isForward);
  void collectTerms(mlir::Value value, ReturnedSum &into);

  mlir::func::FuncOp joint, prologue, update;
  dist::MeshOp meshOp;
  sharding::Mesh mesh;
  std::vector<ReturnedSum> returned;
  int ranks = 0;
  std::vector<int> rankByStage, chunkByStage;
  /// Absent: a sum whose terms several stages have.
  llvm::DenseMap<mlir::Operation *, int> stages;
  std::vector<llvm::SmallVector<mlir::Value>> activations, gradients; ///< by stage
};

} // namespace dtc::stages
