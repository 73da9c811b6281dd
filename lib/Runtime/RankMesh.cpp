#include "dtc-rt/RankMesh.h"

namespace dtc::rt {

int32_t RankMesh::find(const std::string &name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name)
      return static_cast<int32_t>(i);
  return -1;
}

int64_t RankMesh::numRanks() const {
  int64_t count = 1;
  for (const Axis &axis : axes)
    count *= axis.size;
  return count;
}

int64_t RankMesh::sizeOf(const AxisList &list) const {
  int64_t count = 1;
  for (int32_t axis : list)
    count *= axes[axis].size;
  return count;
}

Dims RankMesh::coordinates(int64_t rank) const {
  Dims result(axes.size());
  for (size_t i = axes.size(); i-- > 0; rank /= axes[i].size)
    result[i] = rank % axes[i].size;
  return result;
}

int64_t RankMesh::position(int64_t rank, const AxisList &list) const {
  Dims at = coordinates(rank);
  int64_t result = 0;
  for (int32_t axis : list)
    result = result * axes[axis].size + at[axis];
  return result;
}

std::vector<int> RankMesh::group(int64_t rank, const AxisList &list) const {
  Dims at = coordinates(rank);
  std::vector<int> ranks(static_cast<size_t>(sizeOf(list)));
  for (size_t position = 0; position < ranks.size(); ++position) {
    int64_t rest = static_cast<int64_t>(position);
    for (size_t i = list.size(); i-- > 0; rest /= axes[list[i]].size)
      at[list[i]] = rest % axes[list[i]].size;
    int64_t number = 0;
    for (size_t axis = 0; axis < axes.size(); ++axis)
      number = number * axes[axis].size + at[axis];
    ranks[position] = static_cast<int>(number);
  }
  return ranks;
}

Shard RankMesh::shard(const Dims &shape, const Sharding &sharding, int64_t rank) const {
  Shard result;
  std::vector<bool> splits(axes.size(), false);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t size = shape[dim] / sizeOf(sharding[dim]);
    result.shape.push_back(size);
    result.offset.push_back(size * position(rank, sharding[dim]));
    for (int32_t axis : sharding[dim])
      splits[axis] = true;
  }
  // Copies lie along the axes that split nothing; the first has coordinate 0 on all of them.
  Dims at = coordinates(rank);
  for (size_t axis = 0; axis < axes.size(); ++axis)
    result.first = result.first && (splits[axis] || at[axis] == 0);
  return result;
}

} // namespace dtc::rt
