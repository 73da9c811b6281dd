// Between attributes and the plain values of dtc/Sharding.
#include "dtc/Dialect/Dist/Dist.h"

#include <algorithm>

using namespace mlir;
using namespace dtc;
using namespace dtc::sharding;

Mesh dist::toMesh(MeshOp op) {
  Mesh mesh;
  for (auto [name, size, degree] : llvm::zip_equal(op.getNames().getAsValueRange<StringAttr>(),
                                                   op.getSizes(),
                                                   op.getDegrees().getAsValueRange<StringAttr>()))
    mesh.axes.push_back({name.str(), degree.str(), size});
  return mesh;
}

std::optional<AxisList> dist::toAxes(AxesAttr attr, const Mesh &mesh) {
  AxisList axes;
  for (StringAttr name : attr.getNames()) {
    AxisId axis = mesh.find(name.str());
    if (axis < 0)
      return std::nullopt;
    axes.push_back(axis);
  }
  return axes;
}

std::optional<TensorSharding> dist::toSharding(ShardingAttr attr, const Mesh &mesh) {
  TensorSharding result;
  for (AxesAttr dim : attr.getDims()) {
    std::optional<AxisList> axes = toAxes(dim, mesh);
    if (!axes)
      return std::nullopt;
    result.dims.push_back(std::move(*axes));
  }
  std::pair<AxesAttr, sharding::ReduceKind> partials[] = {
      {attr.getSum(), sharding::ReduceKind::Sum},
      {attr.getMax(), sharding::ReduceKind::Max},
      {attr.getMin(), sharding::ReduceKind::Min}};
  for (auto [list, kind] : partials) {
    std::optional<AxisList> axes = toAxes(list, mesh);
    if (!axes)
      return std::nullopt;
    for (AxisId axis : *axes)
      result.partial.push_back({axis, kind});
  }
  std::sort(result.partial.begin(), result.partial.end());
  return result;
}

std::optional<OpSharding> dist::toOpSharding(OpShardingAttr attr, const Mesh &mesh) {
  OpSharding result;
  for (AxesAttr factor : attr.getFactors()) {
    std::optional<AxisList> axes = toAxes(factor, mesh);
    if (!axes)
      return std::nullopt;
    result.factors.push_back(std::move(*axes));
  }
  for (auto [set, list] : llvm::enumerate(attr.getPending())) {
    std::optional<AxisList> axes = toAxes(list, mesh);
    if (!axes)
      return std::nullopt;
    for (AxisId axis : *axes)
      result.pending.push_back({axis, static_cast<int>(set)});
  }
  std::sort(result.pending.begin(), result.pending.end());
  return result;
}

dist::AxesAttr dist::toAttr(MLIRContext *context, const AxisList &axes, const Mesh &mesh) {
  SmallVector<StringAttr> names;
  for (AxisId axis : axes)
    names.push_back(StringAttr::get(context, mesh.axes[axis].name));
  return AxesAttr::get(context, names);
}

static SmallVector<dist::AxesAttr> toAttrs(MLIRContext *context,
                                           const std::vector<AxisList> &lists, const Mesh &mesh) {
  SmallVector<dist::AxesAttr> result;
  for (const AxisList &axes : lists)
    result.push_back(dist::toAttr(context, axes, mesh));
  return result;
}

dist::ShardingAttr dist::toAttr(MLIRContext *context, FlatSymbolRefAttr meshName,
                                const TensorSharding &sharding, const Mesh &mesh) {
  auto partial = [&](sharding::ReduceKind kind) {
    AxisList axes;
    for (const Partial &p : sharding.partial)
      if (p.kind == kind)
        axes.push_back(p.axis);
    return toAttr(context, axes, mesh);
  };
  return ShardingAttr::get(context, meshName, toAttrs(context, sharding.dims, mesh),
                           partial(sharding::ReduceKind::Sum), partial(sharding::ReduceKind::Max),
                           partial(sharding::ReduceKind::Min));
}

dist::OpShardingAttr dist::toAttr(MLIRContext *context, FlatSymbolRefAttr meshName,
                                  const OpSharding &sharding, const ShardingRule &rule,
                                  const Mesh &mesh) {
  std::vector<AxisList> pending;
  if (!sharding.pending.empty())
    pending.resize(rule.linear.size());
  for (const OpSharding::Pending &p : sharding.pending)
    pending[p.linearSet].push_back(p.axis);
  return OpShardingAttr::get(context, meshName, toAttrs(context, sharding.factors, mesh),
                             toAttrs(context, pending, mesh));
}
