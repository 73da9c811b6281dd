#include "dtc/Plan/Plan/Storage.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

using sharding::AxisList;

int zeroLevel(const ParameterStorage &storage) {
  return !storage.storageAxes.empty()    ? 3
         : !storage.gradientAxes.empty() ? 2
         : !storage.stateAxes.empty()    ? 1
                                         : 0;
}

void splitByLevel(int level, const AxisList &axes, AxisList &states, AxisList &gradients,
                  AxisList &parameters) {
  states = level >= 1 ? axes : AxisList{};
  gradients = level >= 2 ? axes : AxisList{};
  parameters = level >= 3 ? axes : AxisList{};
}

bool canSplit(const ParameterStorage &storage, sharding::AxisId axis) {
  return !storage.use.dims.empty() && !storage.use.splits(axis);
}

void setZeroLevel(ParameterStorage &storage, int level, const AxisList &axes) {
  AxisList own;
  for (sharding::AxisId axis : axes)
    if (canSplit(storage, axis))
      own.push_back(axis);
  splitByLevel(level, own, storage.stateAxes, storage.gradientAxes, storage.storageAxes);
}

AxisList storageAxes(const Degrees &degrees, const sharding::Mesh &mesh) {
  AxisList axes = mesh.ofDegree("dp");
  while (degrees.zeroGroup > 0 && !axes.empty() && mesh.size(axes) > degrees.zeroGroup)
    axes.erase(axes.begin());
  for (const char *degree : {"ep", "cp"}) {
    AxisList more = mesh.ofDegree(degree);
    axes.insert(axes.end(), more.begin(), more.end());
  }
  return axes;
}

int onlyReader(ValueId value, const std::vector<OpId> &firstOps, const ProblemFacts &facts) {
  std::optional<int> part;
  for (OpId reader : facts.consumers[value]) {
    auto after = std::upper_bound(firstOps.begin(), firstOps.end(), facts.position[reader]);
    auto here = static_cast<int>(after - firstOps.begin()) - 1;
    if (part && *part != here)
      return -1;
    part = here;
  }
  return part.value_or(0);
}

std::vector<bool> blocksOfLevel(int level, const Problem &problem, const ProblemFacts &facts,
                                const std::vector<Block> &blocks,
                                const std::vector<ParameterStorage> &storage) {
  std::vector<OpId> firstOps = {0}; // of blocks, and of what lies behind each
  std::vector<int> blockOf = {-1};
  for (size_t block = 0; block < blocks.size(); ++block)
    for (auto [op, index] : {std::pair(blocks[block].first, static_cast<int>(block)),
                             {blocks[block].last + 1, -1}}) {
      if (firstOps.back() == op) {
        blockOf.back() = index;
        continue;
      }
      firstOps.push_back(op);
      blockOf.push_back(index);
    }
  std::vector<bool> result(blocks.size(), false);
  std::map<std::string, ValueId> parameters = parametersByName(problem);
  for (const ParameterStorage &each : storage) {
    auto value = parameters.find(each.parameter);
    if (zeroLevel(each) != level || value == parameters.end())
      continue;
    if (int part = onlyReader(value->second, firstOps, facts); part >= 0 && blockOf[part] >= 0)
      result[blockOf[part]] = true;
  }
  return result;
}

} // namespace dtc::plan
