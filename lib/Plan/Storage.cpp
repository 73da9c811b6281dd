#include "Storage.h"

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

void setZeroLevel(ParameterStorage &storage, int level, const AxisList &axes) {
  AxisList own;
  for (sharding::AxisId axis : axes)
    if (!storage.use.splits(axis))
      own.push_back(axis);
  storage.stateAxes = level >= 1 ? own : AxisList{};
  storage.gradientAxes = level >= 2 ? own : AxisList{};
  storage.storageAxes = level >= 3 ? own : AxisList{};
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

/// Of those who read a value in the forward pass: in the only one of the parts that begin
/// at these ops, or -1 for several. What nothing reads belongs to the first part.
static int onlyReader(ValueId value, const std::vector<OpId> &firstOps, const Problem &problem,
                      const ProblemFacts &facts) {
  std::optional<int> part;
  for (OpId reader : facts.consumers[value]) {
    if (problem.ops[reader].backward)
      continue;
    auto after = std::upper_bound(firstOps.begin(), firstOps.end(),
                                  std::min(reader, facts.lastForward));
    auto here = static_cast<int>(after - firstOps.begin()) - 1;
    if (part && *part != here)
      return -1;
    part = here;
  }
  return part.value_or(0);
}

bool HigherLevel::has(ValueId parameter, const Problem &problem,
                      const ProblemFacts &facts) const {
  int part = onlyReader(parameter, firstOps, problem, facts);
  return part < 0 || isHigher[part];
}

std::vector<bool> blocksOfLevel(int level, const Problem &problem, const ProblemFacts &facts,
                                const std::vector<Block> &blocks,
                                const std::vector<ParameterStorage> &storage) {
  std::map<std::string, int> levels;
  for (const ParameterStorage &each : storage)
    levels[each.parameter] = zeroLevel(each);
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
  for (ValueId value = 0; value < problem.arguments; ++value) {
    auto found = levels.find(problem.values[value].name);
    if (problem.values[value].kind != ValueKind::Parameter || found == levels.end() ||
        found->second != level)
      continue;
    if (int part = onlyReader(value, firstOps, problem, facts); part >= 0 && blockOf[part] >= 0)
      result[blockOf[part]] = true;
  }
  return result;
}

} // namespace dtc::plan
