#include "Reshard.h"

#include "Zigzag.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

static std::vector<int64_t> shapeOf(RankedTensorType type) {
  return {type.getShape().begin(), type.getShape().end()};
}

RankedTensorType localType(RankedTensorType type, const TensorSharding &sharding,
                           const Mesh &mesh) {
  return type.clone(sharding.localShape(shapeOf(type), mesh));
}

static graph::ReduceKind toGraph(sharding::ReduceKind kind) {
  switch (kind) {
  case sharding::ReduceKind::Max:
    return graph::ReduceKind::Max;
  case sharding::ReduceKind::Min:
    return graph::ReduceKind::Min;
  case sharding::ReduceKind::Sum:
    break;
  }
  return graph::ReduceKind::Sum;
}

FailureOr<Value> emitStep(OpBuilder &builder, Location loc, const NamedMesh &mesh,
                          RankedTensorType global, Value local, const TensorSharding &before,
                          const ReshardStep &step) {
  Type type = localType(global, step.after, mesh.mesh);
  auto toRanks = [&] { return toZigzag(builder, loc, local, step.dim, step.axes, mesh); };
  auto axes = dist::toAttr(builder.getContext(), step.axes, mesh.mesh);
  switch (step.kind) {
  case StepKind::AllReduce:
    return dist::AllReduceOp::create(builder, loc, TypeRange{type}, ValueRange{local},
                                     mesh.name.getValue(), axes, toGraph(step.reduce))
        .getResult(0);
  case StepKind::ReduceScatter:
    return dist::ReduceScatterOp::create(builder, loc, TypeRange{type}, ValueRange{toRanks()},
                                         mesh.name.getValue(), axes, toGraph(step.reduce), step.dim)
        .getResult(0);
  case StepKind::AllGather:
    local = dist::AllGatherOp::create(builder, loc, TypeRange{type}, ValueRange{local},
                                      mesh.name.getValue(), axes, step.dim)
                .getResult(0);
    return fromZigzag(builder, loc, local, step.dim, step.axes, mesh);
  case StepKind::AllToAll:
    local = dist::AllToAllOp::create(builder, loc, type, toRanks(), mesh.name.getValue(), axes,
                                     step.dim, step.concatDim);
    return fromZigzag(builder, loc, local, step.concatDim, step.axes, mesh);
  case StepKind::Permute:
    if (areInZigzag(step.axes, mesh))
      return emitError(loc, "zig-zag parts can't be brought from ")
             << before.str(mesh.mesh) << " to " << step.after.str(mesh.mesh);
    return dist::PermuteOp::create(builder, loc, type, local, mesh.name.getValue(), axes,
                                   permuteSources(before, step.after, step.axes, mesh.mesh))
        .getResult();
  case StepKind::Slice:
    break;
  }
  return dist::SliceOp::create(builder, loc, type, toRanks(), mesh.name.getValue(), axes, step.dim)
      .getResult();
}

int64_t elementBytes(RankedTensorType type) {
  Type element = type.getElementType();
  return element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

int64_t communicatedBytes(const std::vector<ReshardStep> &steps, const TensorSharding &from,
                          RankedTensorType global, const Mesh &mesh) {
  int64_t bytes = 0;
  const TensorSharding *before = &from;
  for (const ReshardStep &step : steps) {
    if (step.kind != StepKind::Slice)
      bytes += stepBytes(step, *before, shapeOf(global), elementBytes(global), mesh);
    before = &step.after;
  }
  return bytes;
}

} // namespace dtc::partition
