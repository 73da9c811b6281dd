#include "dtc/Sharding/Mesh.h"

#include <algorithm>

namespace dtc::sharding {

int64_t Mesh::devices() const {
  int64_t product = 1;
  for (const MeshAxis &axis : axes)
    product *= axis.size;
  return product;
}

int64_t Mesh::size(const AxisList &list) const {
  int64_t product = 1;
  for (AxisId axis : list)
    product *= axes[axis].size;
  return product;
}

int64_t Mesh::stride(AxisId axis) const {
  int64_t result = axes[axis].stride;
  if (result > 0)
    return result;
  result = 1;
  for (size_t inner = axis + 1; inner < axes.size(); ++inner)
    result *= axes[inner].size;
  return result;
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  std::vector<int64_t> result(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    result[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return result;
}

int64_t Mesh::position(int64_t rank, const AxisList &list) const {
  std::vector<int64_t> coordinate = coordinates(rank);
  int64_t result = 0;
  for (AxisId axis : list)
    result = result * axes[axis].size + coordinate[axis];
  return result;
}

std::vector<int64_t> Mesh::group(int64_t rank, const AxisList &list) const {
  std::vector<int64_t> coordinate = coordinates(rank);
  std::vector<int64_t> result(size(list));
  for (size_t position = 0; position < result.size(); ++position) {
    int64_t rest = position;
    for (size_t i = list.size(); i-- > 0;) {
      coordinate[list[i]] = rest % axes[list[i]].size;
      rest /= axes[list[i]].size;
    }
    int64_t member = 0;
    for (size_t axis = 0; axis < axes.size(); ++axis)
      member = member * axes[axis].size + coordinate[axis];
    result[position] = member;
  }
  return result;
}

AxisId Mesh::find(const std::string &name) const {
  auto it = std::find_if(axes.begin(), axes.end(),
                         [&](const MeshAxis &axis) { return axis.name == name; });
  return it == axes.end() ? -1 : static_cast<AxisId>(it - axes.begin());
}

AxisList Mesh::ofDegree(const std::string &degree) const {
  AxisList result;
  for (size_t axis = 0; axis < axes.size(); ++axis)
    if (axes[axis].degree == degree)
      result.push_back(static_cast<AxisId>(axis));
  return result;
}

std::string AxisUses::add(AxisId axis) {
  if (axis < 0 || axis >= static_cast<AxisId>(used.size()))
    return "axis is not in the mesh: " + std::to_string(axis);
  if (used[axis])
    return "axis is used twice: " + mesh.axes[axis].name;
  used[axis] = true;
  return "";
}

} // namespace dtc::sharding
