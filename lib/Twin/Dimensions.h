// The classes of all dimensions of a planned module.
#pragma once

#include "SizeClasses.h"

#include "dtc/Dialect/Dist/Dist.h"

#include <map>

namespace dtc::twin {

class Dimensions {
public:
  explicit Dimensions(mlir::ModuleOp module) : module(module) {}

  /// Fails with a diagnostic at an op that says nothing of its dimensions.
  mlir::LogicalResult find();
  llvm::SmallVector<int64_t> shapeInTwin(mlir::Value value);
  int64_t offsetInTwin(mlir::Value value, size_t dim, int64_t offset);
  /// Of an axis of the mesh.
  int64_t axisInTwin(int64_t size) const;
  int64_t microbatchesInTwin(int64_t microbatches);

private:
  using Dims = std::vector<Atoms>; ///< of a tensor

  Dims &dimsOf(mlir::Value value);
  mlir::LogicalResult visitFunction(mlir::func::FuncOp function);
  mlir::LogicalResult visitOp(mlir::Operation *op);
  void pinCounted(mlir::Operation *op, const sharding::ShardingRule &rule,
                  llvm::ArrayRef<Atoms> factors);
  void visitRole(graph::RoleAttr role, mlir::Value value);
  void tieParts(mlir::Operation *op);
  void tieTo(mlir::Value from, mlir::Value to, llvm::ArrayRef<int64_t> offsets);
  void splitBy(mlir::func::FuncOp function);
  void splitValue(mlir::Attribute sharding, mlir::Value value);
  void splitFactors(mlir::Operation *op);
  llvm::SmallVector<SizeClasses::Split> toSplits(const sharding::AxisList &axes) const;
  Atoms atomsOf(llvm::ArrayRef<sharding::FactorId> factors, llvm::ArrayRef<Atoms> known) const;

  mlir::ModuleOp module;
  sharding::Mesh mesh;
  SizeClasses classes;
  llvm::DenseMap<mlir::Value, Dims> dims;
  llvm::DenseMap<mlir::Operation *, std::vector<Atoms>> factorsOf; ///< of ops with dist.op
  std::map<std::pair<int, std::string>, mlir::Value> roles;
  std::map<int64_t, Atoms> microbatchAtoms; ///< by how many there are
};

} // namespace dtc::twin
