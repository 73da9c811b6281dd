// The classes of all dimensions of a planned module, and of its axes.
//
// Where stages have meshes of their own, each of the modules inside has the same ops (@group1, ...,
// dtc/Stages/Stages.h). What is the same value on two meshes has one shape, which both divide.
#pragma once

#include "SizeClasses.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Graph/CountLimits.h"

#include <map>

namespace dtc::twin {

/// Of the twin's meshes.
enum class Axes { Small, Same };

class Dimensions {
public:
  /// `meshes`: the module, and those inside that have the step on further meshes.
  /// `headMultiple`: of what heads of attention stay a multiple where they are one.
  Dimensions(llvm::ArrayRef<mlir::ModuleOp> meshes, Axes kept, int64_t headMultiple)
      : modules(meshes), kept(kept), headMultiple(headMultiple) {}

  /// Fails with a diagnostic at an op that says nothing of its dimensions.
  mlir::LogicalResult find();
  llvm::SmallVector<int64_t> shapeInTwin(mlir::Value value);
  int64_t offsetInTwin(mlir::Value value, size_t dim, int64_t offset);
  int64_t axisInTwin(const sharding::MeshAxis &axis) const;
  int64_t microbatchesInTwin(int64_t microbatches);
  /// The numbers that counts are compared with.
  llvm::ArrayRef<graph::CountLimit> getLimits() const { return limits; }
  int64_t limitInTwin(const graph::CountLimit &limit);

private:
  using Dims = std::vector<Atoms>; ///< of a tensor

  Dims &dimsOf(mlir::Value value);
  mlir::LogicalResult findMeshes();
  mlir::LogicalResult visitFunction(mlir::func::FuncOp function);
  mlir::LogicalResult unifyWithFirst(mlir::func::FuncOp function);
  mlir::LogicalResult visitOp(mlir::Operation *op);
  void pinCounted(mlir::Operation *op, const sharding::ShardingRule &rule,
                  llvm::ArrayRef<Atoms> factors);
  void visitRole(graph::RoleAttr role, mlir::Value value);
  void tieParts(mlir::Operation *op);
  void keepHeads(mlir::Operation *op);
  void tieTo(mlir::Value from, mlir::Value to, llvm::ArrayRef<int64_t> offsets);
  void findLimits(mlir::func::FuncOp function);
  Atoms atomsOf(const graph::Counted &counted);
  void splitBy(mlir::func::FuncOp function);
  void splitValue(mlir::Attribute sharding, mlir::Value value);
  void splitFactors(mlir::Operation *op);
  llvm::SmallVector<SizeClasses::Split> toSplits(const sharding::AxisList &list) const;
  Atoms atomsOf(llvm::ArrayRef<sharding::FactorId> factors, llvm::ArrayRef<Atoms> known) const;

  llvm::SmallVector<mlir::ModuleOp> modules;
  Axes kept;
  int64_t headMultiple;
  sharding::Mesh mesh;                                     ///< whose shards are looked at
  sharding::AxisId zigzag = -1;                            ///< of that mesh
  std::map<std::pair<std::string, int64_t>, int64_t> axes; ///< by name and size
  SizeClasses classes;
  llvm::DenseMap<mlir::Value, Dims> dims;
  llvm::DenseMap<mlir::Operation *, std::vector<Atoms>> factorsOf; ///< of ops with dist.op
  std::map<std::pair<int, std::string>, mlir::Value> roles;
  std::map<int64_t, Atoms> microbatchAtoms; ///< by how many there are
  std::vector<graph::CountLimit> limits;
};

} // namespace dtc::twin
