// Between global tensors and the shards of ranks.
#include "Kernels.h"

#include "dtc/Interpreter/Interpreter.h"

using namespace mlir;

namespace dtc::interpreter {

static graph::ReduceKind toGraph(sharding::ReduceKind kind) {
  switch (kind) {
  case sharding::ReduceKind::Sum:
    return graph::ReduceKind::Sum;
  case sharding::ReduceKind::Max:
    return graph::ReduceKind::Max;
  case sharding::ReduceKind::Min:
    return graph::ReduceKind::Min;
  }
  return graph::ReduceKind::Sum;
}

/// Where the shard of `rank` begins in the global tensor, as a position.
static int64_t startOf(const sharding::TensorSharding &sharding, const sharding::Mesh &mesh,
                       RankedTensorType type, int64_t rank) {
  Strides strides = stridesOf(type.getShape());
  std::vector<int64_t> offset = sharding.localOffset(type.getShape().vec(), mesh, rank);
  int64_t start = 0;
  for (size_t dim = 0; dim < offset.size(); ++dim)
    start += offset[dim] * strides[dim];
  return start;
}

/// The reduction of the partial axes along which `rank` is not the first.
static std::optional<graph::ReduceKind> heldElsewhere(const sharding::TensorSharding &sharding,
                                                      const sharding::Mesh &mesh, int64_t rank) {
  for (const sharding::Partial &partial : sharding.partial)
    if (mesh.position(rank, {partial.axis}) != 0)
      return toGraph(partial.kind);
  return std::nullopt;
}

Tensors shard(const Tensor &tensor, const sharding::TensorSharding &sharding,
              const sharding::Mesh &mesh) {
  Tensors shards;
  std::vector<int64_t> local = sharding.localShape(tensor.shape().vec(), mesh);
  auto type = RankedTensorType::get(local, tensor.type.getElementType());
  for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
    Tensor &part = shards.emplace_back(type);
    if (auto kind = heldElsewhere(sharding, mesh, rank)) {
      fillNeutral(*kind, part);
      continue;
    }
    auto copy = [&](auto &out, const auto &in) {
      forEachIndex(
          local, stridesOf(local), stridesOf(tensor.shape()),
          [&](int64_t o, int64_t i) { out[o] = in[i]; }, 0,
          startOf(sharding, mesh, tensor.type, rank));
    };
    onElements(copy, part, tensor);
  }
  return shards;
}

/// The axes that neither split the tensor nor leave it partial.
static sharding::AxisList copyAxes(const sharding::TensorSharding &sharding,
                                   const sharding::Mesh &mesh) {
  sharding::AxisList axes;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (!sharding.splits(axis) && !sharding.isPartial(axis))
      axes.push_back(axis);
  return axes;
}

/// The shard of `rank` with the terms of the partial axes combined.
static Tensor completed(const Tensors &shards, const sharding::TensorSharding &sharding,
                        const sharding::Mesh &mesh, int64_t rank) {
  if (sharding.partial.empty())
    return shards[rank];
  // Kinds may differ between axes: reduce one axis, then the next.
  sharding::TensorSharding rest = sharding;
  sharding::Partial last = rest.partial.back();
  rest.partial.pop_back();
  Tensor total(shards[rank].type);
  fillNeutral(toGraph(last.kind), total);
  auto add = [&](auto &out, const auto &in) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = combine(toGraph(last.kind), out[i], in[i]);
  };
  for (int64_t other : mesh.group(rank, {last.axis}))
    onElements(add, total, completed(shards, rest, mesh, other));
  return total;
}

std::optional<Tensor> unshard(const Tensors &shards, const sharding::TensorSharding &sharding,
                              const sharding::Mesh &mesh, RankedTensorType type,
                              double tolerance) {
  Tensor result(type);
  sharding::AxisList copies = copyAxes(sharding, mesh);
  for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
    Tensor part = completed(shards, sharding, mesh, rank);
    int64_t first = mesh.group(rank, copies).front();
    if (first != rank) {
      if (!(maxDifference(part, completed(shards, sharding, mesh, first)) <= tolerance))
        return std::nullopt;
      continue;
    }
    auto copy = [&](auto &out, const auto &in) {
      forEachIndex(
          part.shape(), stridesOf(type.getShape()), stridesOf(part.shape()),
          [&](int64_t o, int64_t i) { out[o] = in[i]; }, startOf(sharding, mesh, type, rank));
    };
    onElements(copy, result, part);
  }
  return result;
}

} // namespace dtc::interpreter
