#include "dtc/Plan/Cost/PipelineLinks.h"

#include <algorithm>

namespace dtc::plan {

static int64_t strideOf(const Strides &strides, Axis axis) {
  return strides[static_cast<size_t>(axis)];
}

bool fillsSwitches(const Degrees &degrees, const Cluster &cluster) {
  Strides strides = stridesOf(degrees);
  return std::all_of(cluster.levels.begin(), cluster.levels.end(), [&](const LinkLevel &level) {
    return level.size == 0 || level.size >= degrees.devices() ||
           std::all_of(kDefaultOrder.begin(), kDefaultOrder.end(), [&](Axis axis) {
             int64_t end = strideOf(strides, axis) * degreeOf(degrees, axis);
             return level.size % end == 0 || end % level.size == 0;
           });
  });
}

std::pair<int64_t, int64_t> farthestPair(const Degrees &degrees, const Cluster &cluster,
                                         int64_t from, int64_t to) {
  const Strides strides = stridesOf(degrees);
  const int64_t stride = strideOf(strides, Axis::PP);
  std::pair<int64_t, int64_t> result(from * stride, to * stride);
  if (fillsSwitches(degrees, cluster))
    return result;
  const int top = cluster.levelBetween(0, degrees.devices() - 1); // that joins all of them
  int highest = cluster.levelBetween(result.first, result.second);
  const int64_t devices = degrees.devices() / degrees.pp;
  for (int64_t rank = 0; rank < devices && highest < top; ++rank) {
    int64_t offset = 0, rest = rank;
    for (Axis axis : {Axis::TP, Axis::CP, Axis::EP, Axis::DP}) {
      offset += rest % degreeOf(degrees, axis) * strideOf(strides, axis);
      rest /= degreeOf(degrees, axis);
    }
    std::pair<int64_t, int64_t> pair(from * stride + offset, to * stride + offset);
    if (int level = cluster.levelBetween(pair.first, pair.second); level > highest) {
      highest = level;
      result = pair;
    }
  }
  return result;
}

} // namespace dtc::plan
