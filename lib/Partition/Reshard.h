// Emits the steps of a reshard.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Sharding/Reshard.h"

namespace dtc::partition {

/// The mesh of a module under its name there.
struct NamedMesh {
  mlir::FlatSymbolRefAttr name;
  sharding::Mesh mesh;
  std::optional<sharding::AxisId> zigzag; ///< splits so (Zigzag.h)
};

/// The type of a shard of `type`.
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 const sharding::TensorSharding &sharding,
                                 const sharding::Mesh &mesh);

/// The collective of `step`, which is applied to `local`, a shard under `before`
/// of a tensor of type `global`. Fails with an error where zig-zag parts would change places.
mlir::FailureOr<mlir::Value> emitStep(mlir::OpBuilder &builder, mlir::Location loc,
                                      const NamedMesh &mesh, mlir::RankedTensorType global,
                                      mlir::Value local, const sharding::TensorSharding &before,
                                      const sharding::ReshardStep &step);

int64_t elementBytes(mlir::RankedTensorType type);

/// What a reshard communicates per rank, in bytes of a tensor of type `global`.
int64_t communicatedBytes(const std::vector<sharding::ReshardStep> &steps,
                          const sharding::TensorSharding &from, mlir::RankedTensorType global,
                          const sharding::Mesh &mesh);

} // namespace dtc::partition
