// Whether parameters are stored as a plan's degrees say.
#include "Verifier.h"

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Storage.h"

#include <algorithm>

namespace dtc::plan {

/// Whether the mesh has all axes that parameters are stored over.
static bool usesAxesOfMesh(const Plan &plan) {
  auto isOfMesh = [&](sharding::AxisId axis) {
    return axis >= 0 && axis < std::ssize(plan.mesh.axes);
  };
  return std::ranges::all_of(plan.storage, [&](const ParameterStorage &storage) {
    return std::ranges::all_of(storage.storageAxes, isOfMesh) &&
           std::ranges::all_of(storage.gradientAxes, isOfMesh) &&
           std::ranges::all_of(storage.stateAxes, isOfMesh);
  });
}

/// Every trained parameter is stored once, and used as the argument is laid out.
void Verifier::checkStorage() {
  std::map<std::string, ValueId> parameters;
  for (ValueId value = 0; value < problem.arguments; ++value)
    if (problem.values[value].kind == ValueKind::Parameter && problem.values[value].trainable)
      parameters[problem.values[value].name] = value;
  std::set<std::string> seen;
  for (const ParameterStorage &storage : plan.storage) {
    auto it = parameters.find(storage.parameter);
    if (it == parameters.end()) {
      report("plan stores a parameter that isn't trained: " + storage.parameter);
      continue;
    }
    if (!seen.insert(storage.parameter).second)
      report("plan stores a parameter twice: " + storage.parameter);
    auto argument = plan.arguments.find(it->second);
    if (argument != plan.arguments.end() && argument->second != storage.use)
      report("storage and argument of a parameter differ: " + storage.parameter);
    for (const sharding::AxisList *axes :
         {&storage.storageAxes, &storage.gradientAxes, &storage.stateAxes})
      for (sharding::AxisId axis : *axes)
        if (axis < 0 || axis >= static_cast<int>(plan.mesh.axes.size()) ||
            storage.use.splits(axis))
          report("storage of " + storage.parameter + " uses an axis that isn't free: " +
                 std::to_string(axis));
  }
  if (usesAxesOfMesh(plan))
    checkLevels();
  for (const auto &[name, value] : parameters)
    if (!seen.contains(name))
      report("plan has no storage for the parameter: " + name);
}

/// ZeRO splits the state first, then gradients, then parameters. Each is split over axes of data or
/// context parallelism that are as many ranks as the degrees say.
void Verifier::checkLevels() {
  const Degrees &degrees = plan.degrees;
  sharding::AxisList data = batchAxes(plan.mesh), context = plan.mesh.ofDegree("cp");
  data.insert(data.end(), context.begin(), context.end());
  int64_t ranks = (degrees.zeroGroup > 0 ? degrees.zeroGroup : degrees.dp) * degrees.ep *
                  degrees.cp;
  sharding::AxisList zeroAxes = storageAxes(degrees, plan.mesh);
  auto canBeLower = [&](const ParameterStorage &storage) {
    return std::none_of(zeroAxes.begin(), zeroAxes.end(), [&](sharding::AxisId axis) {
      return plan.mesh.axes[axis].size > 1 && canSplit(storage, axis);
    });
  };
  auto reportLevel = [&](const ParameterStorage &storage) {
    report("storage of " + storage.parameter + " is that of zero=" +
           std::to_string(zeroLevel(storage)) + ", the plan's is " + std::to_string(degrees.zero));
  };
  const ParameterStorage *lower = nullptr; // than the plan says
  int most = 0, least = degrees.zero - (degrees.zeroBlocks > 0 ? 1 : 0);
  for (const ParameterStorage &storage : plan.storage) {
    // Experts are split over ep already, tables of positions over cp.
    int64_t sharing = ranks;
    for (const char *degree : {"ep", "cp"})
      for (sharding::AxisId axis : plan.mesh.ofDegree(degree))
        if (storage.use.splits(axis))
          sharing /= plan.mesh.axes[axis].size;
    if (int64_t shared = plan.mesh.size(storage.stateAxes);
        !storage.stateAxes.empty() && shared != sharing)
      report("storage of " + storage.parameter + " is shared by " + std::to_string(shared) +
             " ranks, by the plan's degrees it is " + std::to_string(sharing));
    bool nested = (storage.storageAxes.empty() || storage.storageAxes == storage.gradientAxes) &&
                  (storage.gradientAxes.empty() || storage.gradientAxes == storage.stateAxes);
    if (!nested)
      report("parameters are split where their gradients or states aren't: " + storage.parameter);
    for (sharding::AxisId axis : storage.stateAxes)
      if (std::find(data.begin(), data.end(), axis) == data.end())
        report("storage of " + storage.parameter + " is split over an axis of another kind: " +
               std::to_string(axis));
    int level = zeroLevel(storage);
    if (level > degrees.zero)
      reportLevel(storage);
    if (level < least && !canBeLower(storage) && !lower)
      lower = &storage;
    most = std::max(most, level);
  }
  // With one data-parallel rank there is nothing to split.
  if (most < plan.degrees.zero && ranks > 1)
    report("plan says zero=" + std::to_string(plan.degrees.zero) +
           ", its storage is that of zero=" + std::to_string(most));
  else if (lower)
    reportLevel(*lower);
  if (degrees.zeroBlocks > 0)
    checkZeroBlocks();
}

void Verifier::checkZeroBlocks() {
  const Degrees &degrees = plan.degrees;
  std::vector<bool> has = blocksOfLevel(degrees.zero, problem, facts(),
                                        findBlocks(problem, facts()), plan.storage);
  int64_t blocks = std::count(has.begin(), has.end(), true);
  if (blocks != degrees.zeroBlocks)
    report("plan says that " + std::to_string(degrees.zeroBlocks) + " blocks are stored by zero=" +
           std::to_string(degrees.zero) + ", by its storage it is " + std::to_string(blocks));
}

} // namespace dtc::plan
