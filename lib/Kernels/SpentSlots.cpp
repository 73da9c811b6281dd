#include "SpentSlots.h"

#include "KernelIdentity.h"

using namespace mlir;

namespace dtc::kernels {

SpentSlots::SpentSlots(const Clustering &clustering, ArrayRef<Clustering::Step> steps)
    : clustering(clustering) {
  for (auto [i, step] : llvm::enumerate(steps))
    if (step.op)
      stepOfOp[step.op] = i;
    else
      stepOfCluster[step.cluster] = i;
}

/// Launches that are there already come before all steps that are left.
bool SpentSlots::isReadLastBy(size_t step, Value value) const {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<exec::LaunchOp>(user))
      return true;
    if (auto own = stepOfOp.find(user); own != stepOfOp.end())
      return own->second <= step;
    if (auto cluster = clustering.clusterOf.find(user); cluster != clustering.clusterOf.end())
      return stepOfCluster.lookup(cluster->second) <= step;
    return clustering.isFree(user) && llvm::all_of(user->getResults(), [&](Value result) {
             return isReadLastBy(step, result);
           });
  });
}

void SpentSlots::prefer(int cluster, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                        SmallVector<int64_t> &replaces) const {
  const size_t step = stepOfCluster.lookup(cluster);
  auto isSpentSlot = [&](int64_t operand) {
    graph::RoleAttr role = argumentRole(inputs[operand]);
    return role && role.getKind() == graph::RoleKind::Kept &&
           isReadLastBy(step, graph::withoutReshapes(inputs[operand]));
  };
  SmallVector<int64_t> chosen = replaces;
  chosen.resize(outputs.size(), -1);
  bool prefers = false;
  for (auto [result, output] : llvm::enumerate(outputs)) {
    SmallVector<int64_t> alike;
    for (auto [operand, input] : llvm::enumerate(inputs))
      if (!llvm::is_contained(chosen, int64_t(operand)) &&
          elementsOf(input) == elementsOf(output) &&
          getElementTypeOrSelf(input) == getElementTypeOrSelf(output))
        alike.push_back(operand);
    // What is returned has a place of its own, where a temporary may lie from the start.
    auto slot = returnedRole(output) ? alike.end() : llvm::find_if(alike, isSpentSlot);
    if (chosen[result] >= 0 || slot == alike.end())
      continue;
    // The first one is taken anyway, so that the kernel is the same without a preference.
    prefers |= slot != alike.begin();
    chosen[result] = *slot;
  }
  if (prefers)
    replaces = chosen;
}

} // namespace dtc::kernels
