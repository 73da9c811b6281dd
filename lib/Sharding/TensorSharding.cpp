#include "dtc/Sharding/TensorSharding.h"

#include <algorithm>

namespace dtc::sharding {

bool TensorSharding::isPartial(AxisId axis) const {
  return std::any_of(partial.begin(), partial.end(),
                     [&](const Partial &p) { return p.axis == axis; });
}

bool TensorSharding::splits(AxisId axis) const {
  return std::any_of(dims.begin(), dims.end(), [&](const AxisList &axes) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  });
}

std::vector<int64_t> TensorSharding::localShape(const std::vector<int64_t> &shape,
                                                const Mesh &mesh) const {
  std::vector<int64_t> result(shape);
  for (size_t dim = 0; dim < result.size() && dim < dims.size(); ++dim)
    result[dim] /= mesh.size(dims[dim]);
  return result;
}

std::vector<int64_t> TensorSharding::localOffset(const std::vector<int64_t> &shape,
                                                 const Mesh &mesh, int64_t rank) const {
  std::vector<int64_t> result = localShape(shape, mesh);
  for (size_t dim = 0; dim < result.size() && dim < dims.size(); ++dim)
    result[dim] *= mesh.position(rank, dims[dim]);
  return result;
}

std::string TensorSharding::check(const std::vector<int64_t> &shape, const Mesh &mesh) const {
  if (dims.size() != shape.size())
    return "sharding has " + std::to_string(dims.size()) + " dimensions, the tensor " +
           std::to_string(shape.size());
  AxisUses uses(mesh);
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    for (AxisId axis : dims[dim])
      if (std::string error = uses.add(axis); !error.empty())
        return error;
    if (shape[dim] % mesh.size(dims[dim]) != 0)
      return "dimension " + std::to_string(dim) + " of size " + std::to_string(shape[dim]) +
             " is not divisible by " + std::to_string(mesh.size(dims[dim]));
  }
  for (size_t i = 0; i < partial.size(); ++i) {
    if (std::string error = uses.add(partial[i].axis); !error.empty())
      return error;
    if (i > 0 && partial[i - 1].axis > partial[i].axis)
      return "partial axes are not in the order of the mesh: " + mesh.axes[partial[i].axis].name;
  }
  return "";
}

static std::string axesStr(const AxisList &axes, const Mesh &mesh) {
  std::string result = "{";
  for (size_t i = 0; i < axes.size(); ++i)
    result += (i ? ", \"" : "\"") + mesh.axes[axes[i]].name + "\"";
  return result + "}";
}

std::string TensorSharding::str(const Mesh &mesh) const {
  std::string result = "[";
  for (size_t dim = 0; dim < dims.size(); ++dim)
    result += (dim ? ", " : "") + axesStr(dims[dim], mesh);
  result += "]";
  static constexpr std::pair<ReduceKind, const char *> kinds[] = {
      {ReduceKind::Sum, " sum"}, {ReduceKind::Max, " max"}, {ReduceKind::Min, " min"}};
  for (auto [kind, name] : kinds) {
    AxisList axes;
    for (const Partial &p : partial)
      if (p.kind == kind)
        axes.push_back(p.axis);
    if (!axes.empty())
      result += name + axesStr(axes, mesh);
  }
  return result;
}

} // namespace dtc::sharding
