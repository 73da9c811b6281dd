// What it means on shards that an axis splits in zig-zag (dtc/Dialect/Dist/Zigzag.h).
//
// Of a dimension of 8 on <cp=2>, rank 0 has elements 0, 1, 6, 7 and rank 1 has 2, 3, 4, 5. So
//
//   slice         puts the chunks into the order of the ranks, then cuts:  0 1 6 7 | 2 3 4 5
//   all_gather    joins the shards, then puts the chunks back
//   offsets       there are two, one for each chunk of the rank
//
// An op that asks where its shard begins is built on each chunk alone, and the results are joined.
// Axes in front of this one cut the dimension before, those behind it cut the rank's two chunks.
#pragma once

#include "Reshard.h"

#include "dtc/Interfaces/Interfaces.h"

namespace dtc::partition {

/// Whether one of the axes splits in zig-zag.
bool areInZigzag(const sharding::AxisList &axes, const NamedMesh &mesh);

/// Fails with an error at `op` where a factor's parts can't be cut in two.
mlir::LogicalResult checkZigzag(mlir::Operation *op, const sharding::ShardingRule &rule,
                                const sharding::OpSharding &choice, const NamedMesh &mesh);

/// The chunks of a dimension in the order of the ranks, before `axes` cut it.
mlir::Value toZigzag(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, int64_t dim,
                     const sharding::AxisList &axes, const NamedMesh &mesh);
/// The chunks in their own order, after `axes` were gathered.
mlir::Value fromZigzag(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, int64_t dim,
                       const sharding::AxisList &axes, const NamedMesh &mesh);

/// `size` elements along a dimension.
mlir::Value sliceAlong(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, int64_t dim,
                       int64_t begin, int64_t size);
mlir::Value joinAlong(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange parts,
                      int64_t dim);

/// Builds an op on shards (buildLocal), whether its shards are one range each or two.
class ShardBuilder {
public:
  ShardBuilder(mlir::Operation *op, const sharding::ShardingRule &rule,
               const sharding::OpSharding &choice, const NamedMesh &mesh)
      : op(op), rule(rule), choice(choice), mesh(mesh) {}

  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  build(mlir::OpBuilder &builder, mlir::ValueRange operands, mlir::TypeRange types);

private:
  /// Where a factor's shard begins, or the chunk `chunk` of a shard that has two.
  mlir::Value offset(mlir::OpBuilder &builder, sharding::FactorId factor, int64_t chunk);
  mlir::Value offsetInZigzag(mlir::OpBuilder &builder, sharding::FactorId factor, size_t at,
                             int64_t chunk);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  buildInChunks(mlir::OpBuilder &builder, mlir::ValueRange operands, mlir::TypeRange types);
  /// Along which dimension a tensor has the factor that is built in chunks; -1: it has not.
  mlir::FailureOr<int64_t> dimOf(const sharding::TensorFactors &tensor) const;

  mlir::Operation *op;
  const sharding::ShardingRule &rule;
  const sharding::OpSharding &choice;
  const NamedMesh &mesh;
  sharding::FactorId inChunks = -1; ///< a factor that was asked for, of which a shard is two ranges
};

} // namespace dtc::partition
