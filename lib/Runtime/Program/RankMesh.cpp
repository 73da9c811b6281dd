#include "dtc-rt/Program/RankMesh.h"

#include <algorithm>

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
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t size = shape[dim] / sizeOf(sharding[dim]);
    result.shape.push_back(size);
    result.offset.push_back(size * position(rank, sharding[dim]));
  }
  result.first = position(rank, copyAxes({sharding, {}})) == 0;
  return result;
}

AxisList RankMesh::copyAxes(const Placement &placement) const {
  std::vector<bool> splits(axes.size(), false);
  for (const AxisList &list : placement.dims)
    for (int32_t axis : list)
      splits[axis] = true;
  for (int32_t axis : placement.flatAxes)
    splits[axis] = true;
  AxisList result;
  for (size_t axis = 0; axis < axes.size(); ++axis)
    if (!splits[axis])
      result.push_back(static_cast<int32_t>(axis));
  return result;
}

Part RankMesh::part(const Dims &shape, const Placement &placement, int64_t rank) const {
  Part result;
  result.shard = shard(shape, placement.dims, rank);
  int64_t elements = product(result.shard.shape);
  if (placement.flatAxes.empty()) {
    result.end = result.stored = elements;
    return result;
  }
  result.stored = placement.bucketElements / sizeOf(placement.flatAxes);
  int64_t from = result.stored * position(rank, placement.flatAxes), to = from + result.stored;
  int64_t start = placement.bucketOffset;
  result.begin = std::clamp<int64_t>(from - start, 0, elements);
  result.end = std::clamp<int64_t>(to - start, 0, elements);
  result.at = std::clamp<int64_t>(start - from, 0, result.stored);
  result.shard.first = position(rank, copyAxes(placement)) == 0;
  return result;
}

Part RankMesh::share(const Dims &shape, const Placement &placement, int64_t rank) const {
  Part result = part(shape, placement, rank);
  AxisList copies = copyAxes(placement);
  int64_t count = result.end - result.begin, held = sizeOf(copies), mine = position(rank, copies);
  int64_t skipped = count / held * mine + count % held * mine / held;
  int64_t next = count / held * (mine + 1) + count % held * (mine + 1) / held;
  result.end = result.begin + next;
  result.begin += skipped;
  result.at += skipped;
  return result;
}

Part Part::whole(const Dims &shape) {
  Part result;
  result.shard = {Dims(shape.size(), 0), shape};
  result.end = result.stored = product(shape);
  return result;
}

} // namespace dtc::rt
