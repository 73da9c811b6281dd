#include "dtc/Plan/Plan/Plan.h"

#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/Spec.h"

#include <algorithm>

namespace dtc::plan {

sharding::AxisList batchAxes(const sharding::Mesh &mesh) {
  sharding::AxisList axes = mesh.ofDegree("dp"), experts = mesh.ofDegree("ep");
  axes.insert(axes.end(), experts.begin(), experts.end());
  return axes;
}

//===-- stages with meshes of their own -----------------------------------===//

/// What is too much for a plan file is still a number.
static constexpr int64_t kTooMany = int64_t{1} << 48;

static int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (int64_t factor : factors)
    result = factor > 0 && result > kTooMany / factor ? kTooMany : result * factor;
  return result;
}

int64_t Degrees::devices() const {
  if (groups.empty())
    return product({dp, tp, pp, cp, ep});
  int64_t count = 0;
  for (const StageGroup &group : groups)
    count = std::min(kTooMany, count + product({group.pp, group.dp, group.tp, cp, ep}));
  return count;
}

size_t groupCount(const Degrees &degrees) { return std::max<size_t>(1, degrees.groups.size()); }

size_t groupOf(const Degrees &degrees, int64_t rank) {
  size_t group = 0;
  for (; group + 1 < degrees.groups.size() && rank >= degrees.groups[group].pp; ++group)
    rank -= degrees.groups[group].pp;
  return group;
}

Degrees inGroup(const Degrees &degrees, size_t group) {
  Degrees result = degrees;
  result.groups.clear();
  if (degrees.groups.empty())
    return result;
  const StageGroup &own = degrees.groups[group];
  result.dp = own.dp;
  result.tp = own.tp;
  result.sp = own.sp;
  result.microBatch = own.microBatch;
  if (result.zeroGroup >= own.dp)
    result.zeroGroup = 0;
  return result;
}

std::string groupsText(const Degrees &degrees, int64_t Degrees::*degree) {
  std::string text;
  for (size_t group = 0; group < groupCount(degrees); ++group)
    text += (group > 0 ? "|" : "") + std::to_string(inGroup(degrees, group).*degree);
  return text;
}

std::string sequenceText(const Degrees &degrees) {
  std::string text;
  for (size_t group = 0; group < groupCount(degrees); ++group)
    text += std::string(group > 0 ? "|" : "") + (inGroup(degrees, group).sp ? "on" : "off");
  return text;
}

const ModelSharding &layoutOf(const Plan &plan, size_t group) {
  return group == 0 ? plan : plan.others[group - 1];
}

Plan inGroup(const Plan &plan, size_t group) {
  Plan result;
  static_cast<ModelSharding &>(result) = layoutOf(plan, group);
  result.degrees = inGroup(plan.degrees, group);
  result.stages = plan.stages;
  result.recompute = plan.recompute;
  return result;
}

//===-- what they mean ----------------------------------------------------===//

schedule::ScheduleShape scheduleShape(const Degrees &degrees) {
  bool isPipeline = degrees.pp > 1;
  return {isPipeline ? degrees.schedule : kDefaultSchedule, degrees.pp, degrees.chunks,
          degrees.numMicrobatches};
}

schedule::Placement placementOf(const Degrees &degrees) {
  return schedule::placementOf(scheduleShape(degrees));
}

std::vector<std::string> unimplemented(const Plan &plan) {
  std::vector<std::string> result;
  const Degrees &degrees = plan.degrees;
  auto degree = [&](const char *name, int64_t value) {
    if (value > 1)
      result.push_back(std::string("not implemented yet: ") + name + "=" + std::to_string(value));
  };
  degree("pp", degrees.pp);
  degree("cp", degrees.cp);
  degree("chunks", degrees.chunks);
  if (degrees.zero > 0)
    result.push_back("not implemented yet: zero=" + std::to_string(degrees.zero));
  if (degrees.zeroBlocks > 0)
    result.push_back("not implemented yet: zero_blocks=" + std::to_string(degrees.zeroBlocks));
  if (degrees.zeroGroup > 1)
    result.push_back("not implemented yet: zero_group=" + std::to_string(degrees.zeroGroup));
  if (degrees.recompute != Recompute::None)
    result.push_back(std::string("not implemented yet: recompute=") + name(degrees.recompute));
  if (degrees.offload != Offload::None)
    result.push_back(std::string("not implemented yet: offload=") + name(degrees.offload));
  if (!degrees.groups.empty())
    result.push_back("not implemented yet: stages with meshes of their own: " +
                     std::to_string(degrees.groups.size()));
  if (!hasDefaultPlacement(degrees))
    result.push_back("not implemented yet: order=" + name(degrees.order));
  if (plan.stages.size() > 1)
    result.push_back("not implemented yet: several stages: " + std::to_string(plan.stages.size()));
  for (const ParameterStorage &storage : plan.storage)
    if (!storage.storageAxes.empty() || !storage.gradientAxes.empty() ||
        !storage.stateAxes.empty()) {
      result.push_back("not implemented yet: sharded storage of " + storage.parameter);
      break;
    }
  for (const BlockRecompute &block : plan.recompute)
    if (block.kind != Recompute::None) {
      result.push_back("not implemented yet: recomputation of block " +
                       std::to_string(block.block));
      break;
    }
  return result;
}

std::vector<std::string> unimplemented(const Problem &problem, const Plan &plan) {
  std::vector<std::string> result = unimplemented(plan);
  auto groupedExperts = std::find_if(problem.ops.begin(), problem.ops.end(),
                             [](const Op &op) { return op.groupedExperts >= 0; });
  if (plan.degrees.ep > 1 && groupedExperts != problem.ops.end())
    result.push_back(
        "not implemented yet: experts on several ranks where rows choose them, at " +
        (groupedExperts->location.empty() ? groupedExperts->name : groupedExperts->location) +
        ": ep=" + std::to_string(plan.degrees.ep));
  return result;
}

std::string rankCounts(const Degrees &degrees) {
  std::string text;
  for (const StageGroup &group : degrees.groups)
    text += (text.empty() ? "(" : "|") + std::to_string(group.pp);
  return text.empty() ? "" : text + ")";
}

std::string summary(const Degrees &degrees) {
  auto number = [](const char *key, int64_t value) {
    return std::string(key) + "=" + std::to_string(value);
  };
  std::string text = "dp=" + groupsText(degrees, &Degrees::dp) +
                     " tp=" + groupsText(degrees, &Degrees::tp) + " " +
                     number("pp", degrees.pp) + rankCounts(degrees) + " " +
                     number("cp", degrees.cp) + " " + number("ep", degrees.ep) +
                     " sp=" + sequenceText(degrees) + " " + number("zero", degrees.zero);
  if (degrees.zeroBlocks > 0)
    text += " (" + std::to_string(degrees.zeroBlocks) + " blocks)";
  if (degrees.zeroGroup > 0)
    text += " " + number("zero_group", degrees.zeroGroup);
  text += std::string(" schedule=") + name(degrees.schedule) + " " +
          number("chunks", degrees.chunks) + " recompute=" + name(degrees.recompute);
  if (degrees.recomputeBlocks > 0)
    text += " (" + std::to_string(degrees.recomputeBlocks) + " blocks)";
  text += " micro_batch=" + groupsText(degrees, &Degrees::microBatch) + " offload=" +
          name(degrees.offload);
  return degrees.order == kDefaultOrder ? text : text + " order=" + name(degrees.order);
}

} // namespace dtc::plan
