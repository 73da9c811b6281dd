#include "Storage.h"

#include "FlatForm.h"
#include "OpForms.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;
using namespace dtc::sharding;
using dtc::graph::RoleKind;

namespace dtc::partition {

/// Notes the axes of an argument's or a result's role; fails where another function says otherwise.
static LogicalResult enter(func::FuncOp func, graph::RoleAttr role, DictionaryAttr attributes,
                           bool isResult, const NamedMesh &mesh, StorageTable &table) {
  auto attr =
      attributes ? attributes.getAs<dist::AxesAttr>(dist::DistDialect::kStorage) : dist::AxesAttr();
  if (!attr)
    return success();
  std::optional<AxisList> axes = dist::toAxes(attr, mesh.mesh);
  if (!axes)
    return func.emitOpError("storage names an axis that the mesh lacks: ") << attr;
  dropTrivialAxes(*axes, mesh.mesh);
  if (axes->empty())
    return success();
  ParameterAxes &known = table[graph::weightOf(role)];
  bool isParameter = role.getKind() == RoleKind::Parameter;
  AxisList &own = isParameter && isResult                ? known.update
                  : isParameter                          ? known.parameter
                  : role.getKind() == RoleKind::Gradient ? known.gradient
                                                         : known.state;
  if (!own.empty() && own != *axes)
    return func.emitOpError("functions disagree about the storage of ") << role;
  own = *axes;
  if (auto block = attributes.getAs<IntegerAttr>(dist::DistDialect::kBlock))
    known.block = block.getInt();
  return success();
}

/// Whether other stages alone add to a weight's gradient: where two read a part of it each, one
/// joins the parts' gradients.
static bool isOfOtherStages(ModuleOp module, StringRef weight) {
  bool isSummed = false, isGiven = false;
  for (auto func : module.getOps<func::FuncOp>()) {
    auto sums = func.getOps<dist::StageSumOp>();
    isSummed |= sums.begin() != sums.end();
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (graph::RoleAttr role = graph::getResultRole(func, i))
        isGiven |= role.getKind() == RoleKind::Gradient && graph::weightOf(role) == weight;
  }
  return isSummed && !isGiven;
}

/// What is divided at all is divided over the same axes.
static LogicalResult checkNested(ModuleOp module, const StorageTable &table) {
  for (const auto &entry : table) {
    const ParameterAxes &axes = entry.second;
    for (const AxisList *list : {&axes.parameter, &axes.gradient, &axes.state, &axes.update})
      if (!list->empty() && *list != axes.ofUpdate())
        return module.emitError("parts of a parameter are stored over different axes: ")
               << entry.first();
    if (!axes.parameter.empty() && axes.gradient.empty() && !isOfOtherStages(module, entry.first()))
      return module.emitError("a parameter is divided, but its gradient isn't: ") << entry.first();
  }
  return success();
}

LogicalResult realizeStorage(ModuleOp module, const NamedMesh &mesh) {
  StorageTable table;
  for (auto func : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (failed(
              enter(func, graph::getArgRole(func, i), func.getArgAttrDict(i), false, mesh, table)))
        return failure();
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (failed(enter(func, graph::getResultRole(func, i), func.getResultAttrDict(i), true, mesh,
                       table)))
        return failure();
  }
  if (failed(checkNested(module, table)))
    return failure();
  for (auto func : module.getOps<func::FuncOp>()) {
    StoredFunction stored(func, table, mesh);
    bool isPass = graph::runsPerMicrobatch(func);
    if (failed(isPass ? rewriteStoredPasses(stored) : rewriteStoredUpdate(stored)))
      return failure();
    stored.finish();
  }
  return success();
}

} // namespace dtc::partition
