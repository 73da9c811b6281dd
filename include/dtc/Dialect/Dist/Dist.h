// The `dist` dialect: meshes, shardings and collectives.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Sharding/Rule.h"

#include "dtc/Dialect/Dist/DistDialect.h.inc"

#include "dtc/Dialect/Dist/DistEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Dist/DistAttrs.h.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Dist/DistOps.h.inc"

namespace dtc::dist {

/// Between the attributes and the plain values of dtc/Sharding. Axis names
/// that the mesh lacks give nullopt.
sharding::Mesh toMesh(MeshOp op);
std::optional<sharding::TensorSharding> toSharding(ShardingAttr attr, const sharding::Mesh &mesh);
std::optional<sharding::OpSharding> toOpSharding(OpShardingAttr attr, const sharding::Mesh &mesh);
std::optional<sharding::AxisList> toAxes(AxesAttr attr, const sharding::Mesh &mesh);
ShardingAttr toAttr(mlir::MLIRContext *context, mlir::FlatSymbolRefAttr meshName,
                    const sharding::TensorSharding &sharding, const sharding::Mesh &mesh);
OpShardingAttr toAttr(mlir::MLIRContext *context, mlir::FlatSymbolRefAttr meshName,
                      const sharding::OpSharding &sharding, const sharding::ShardingRule &rule,
                      const sharding::Mesh &mesh);
AxesAttr toAttr(mlir::MLIRContext *context, const sharding::AxisList &axes,
                const sharding::Mesh &mesh);

} // namespace dtc::dist
