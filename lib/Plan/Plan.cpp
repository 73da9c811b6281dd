#include "dtc/Plan/Plan.h"

#include "dtc/Plan/Spec.h"

namespace dtc::plan {

sharding::AxisList batchAxes(const sharding::Mesh &mesh) {
  sharding::AxisList axes = mesh.ofDegree("dp"), experts = mesh.ofDegree("ep");
  axes.insert(axes.end(), experts.begin(), experts.end());
  return axes;
}

pipeline::ScheduleShape scheduleShape(const Degrees &degrees) {
  bool isPipeline = degrees.pp > 1;
  return {isPipeline ? degrees.schedule : ScheduleKind::OneFOneB, degrees.pp, degrees.chunks,
          degrees.numMicrobatches};
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
  if (degrees.zeroGroup > 1)
    result.push_back("not implemented yet: zero_group=" + std::to_string(degrees.zeroGroup));
  if (degrees.recompute != Recompute::None)
    result.push_back(std::string("not implemented yet: recompute=") + name(degrees.recompute));
  if (degrees.offload != Offload::None)
    result.push_back(std::string("not implemented yet: offload=") + name(degrees.offload));
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

std::string summary(const Degrees &degrees) {
  auto number = [](const char *key, int64_t value) {
    return std::string(key) + "=" + std::to_string(value);
  };
  std::string text = number("dp", degrees.dp) + " " + number("tp", degrees.tp) + " " +
                     number("pp", degrees.pp) + " " + number("cp", degrees.cp) + " " +
                     number("ep", degrees.ep) + " sp=" + (degrees.sp ? "on" : "off") + " " +
                     number("zero", degrees.zero);
  if (degrees.zeroGroup > 0)
    text += " " + number("zero_group", degrees.zeroGroup);
  text += std::string(" schedule=") + name(degrees.schedule) + " " +
          number("chunks", degrees.chunks) + " recompute=" + name(degrees.recompute);
  if (degrees.recomputeBlocks > 0)
    text += " (" + std::to_string(degrees.recomputeBlocks) + " blocks)";
  return text + " " + number("micro_batch", degrees.microBatch) + " offload=" +
         name(degrees.offload);
}

} // namespace dtc::plan
