#include "dtc/Partition/Partition.h"

#include "dtc/Dialect/Dist/Zigzag.h"
#include "dtc/Dialect/Graph/MergeDuplicates.h"

#include "Collectives.h"
#include "Localizer.h"
#include "Roles.h"
#include "Storage.h"

using namespace mlir;

namespace dtc::partition {

static FailureOr<NamedMesh> findMesh(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (!llvm::hasSingleElement(meshes))
    return module.emitError("needs one dist.mesh to be partitioned, has: ")
           << std::distance(meshes.begin(), meshes.end());
  dist::MeshOp mesh = *meshes.begin();
  NamedMesh named{FlatSymbolRefAttr::get(mesh.getSymNameAttr()), dist::toMesh(mesh), std::nullopt};
  if (auto zigzag = mesh->getAttrOfType<dist::AxesAttr>(dist::kZigzag))
    if (std::optional<sharding::AxisList> axes = dist::toAxes(zigzag, named.mesh);
        axes && named.mesh.size(*axes) > 1)
      named.zigzag = axes->front();
  return named;
}

/// What passes before this one carry out.
static LogicalResult checkPlan(ModuleOp module) {
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    for (Operation &op : func.getBody().front()) {
      if (Attribute stage = op.getAttr(dist::DistDialect::kStage))
        return op.emitError("the step must be cut into stages before, this belongs to: ") << stage;
      if (Attribute attr = op.getAttr(dist::DistDialect::kRecompute))
        return op.emitError("what is computed again must be cloned before: ") << attr;
    }
  }
  return success();
}

LogicalResult partition(ModuleOp module, const PartitionOptions &options) {
  FailureOr<NamedMesh> mesh = findMesh(module);
  if (failed(mesh) || failed(checkPlan(module)) || failed(unifyShardings(module, mesh->name)))
    return failure();
  SmallVector<func::FuncOp> functions;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal() || func->hasAttr(dist::DistDialect::kLocal))
      return func.emitOpError("cannot be partitioned: it has no body or is local already");
    functions.push_back(func);
  }
  // What reads gradients comes after what leaves them pending.
  llvm::stable_sort(
      functions, [](func::FuncOp a, func::FuncOp b) { return returnsSums(a) && !returnsSums(b); });
  SmallVector<func::FuncOp> producers;
  for (func::FuncOp func : functions) {
    for (func::FuncOp producer : producers)
      adoptResults(func, producer);
    if (failed(Localizer(func, *mesh, options.regather).run()))
      return failure();
    if (returnsSums(func))
      producers.push_back(func);
  }
  for (func::FuncOp func : functions)
    graph::mergeDuplicates(func);
  if (failed(realizeStorage(module, *mesh)))
    return failure();
  for (func::FuncOp func : functions)
    sumStepVector(func, *mesh);
  if (failed(fuseScatters(module)))
    return failure();
  for (func::FuncOp func : functions) {
    if (graph::runsPerMicrobatch(func))
      gatherBlocksAhead(func);
    bucketCollectives(func, options.bucketBytes);
  }
  return success();
}

} // namespace dtc::partition
