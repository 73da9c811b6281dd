#include "dtc/Plan/Plan/Plan.h"

#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/Settings.h"

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

bool agreesWithFirstGroup(const Degrees &degrees) {
  if (degrees.groups.empty())
    return true;
  const StageGroup &first = degrees.groups.front();
  return first.dp == degrees.dp && first.tp == degrees.tp && first.sp == degrees.sp &&
         first.microBatch == degrees.microBatch;
}

const ModelSharding &shardingOf(const Plan &plan, size_t group) {
  return group == 0 ? plan : plan.others[group - 1];
}

Plan inGroup(const Plan &plan, size_t group) {
  Plan result;
  static_cast<ModelSharding &>(result) = shardingOf(plan, group);
  result.degrees = inGroup(plan.degrees, group);
  result.stages = plan.stages;
  result.recompute = plan.recompute;
  return result;
}

//===-- what they mean ----------------------------------------------------===//

schedule::ScheduleShape scheduleShape(const Degrees &degrees) {
  bool isPipeline = degrees.pp > 1;
  return {isPipeline ? degrees.schedule : kDefaultSchedule, degrees.pp, degrees.chunks,
          degrees.numMicrobatches, degrees.kept};
}

schedule::Placement placementOf(const Degrees &degrees) {
  return schedule::placementOf(scheduleShape(degrees));
}

std::string rankCounts(const Degrees &degrees) {
  std::string text;
  for (const StageGroup &group : degrees.groups)
    text += (text.empty() ? "(" : "|") + std::to_string(group.pp);
  return text.empty() ? "" : text + ")";
}

std::string summary(const Degrees &degrees) {
  std::string text;
  for (const Setting *setting : settingsAsSaid()) {
    if (isBlockCount(*setting))
      text += blocksText(*setting, degrees);
    else if (setting->said <= Said::InFull ||
             (setting->said == Said::IfSet && !hasDefault(*setting, degrees)))
      text += (text.empty() ? "" : " ") + settingText(*setting, degrees);
  }
  return text;
}

} // namespace dtc::plan
