#include "DataParallelRanks.h"

#include "dtc/Plan/Plan/Storage.h"

namespace dtc::plan {

using sharding::AxisList;

Weights amongDataRanks(Weights weights, const Degrees &degrees, const sharding::Mesh &mesh) {
  AxisList data = mesh.ofDegree("dp"), storage = storageAxes(degrees, mesh);
  auto shift = static_cast<int>(data.size());
  for (WeightClass &each : weights.classes) {
    for (AxisList *axes : {&each.pending, &each.split})
      for (sharding::AxisId &axis : *axes)
        axis += shift;
    if (!each.stored)
      continue;
    each.pending.insert(each.pending.begin(), data.begin(), data.end());
    AxisList own = without(storage, each.split);
    splitByLevel(degrees.zero, own, each.state, each.gradient, each.storage);
  }
  return weights;
}

} // namespace dtc::plan
