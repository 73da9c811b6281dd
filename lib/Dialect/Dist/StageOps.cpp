#include "dtc/Dialect/Dist/StageOps.h"

#include "Verify.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::dist;

LogicalResult StageSumOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError("mesh is not declared: ") << getMeshAttr();
  if (failed(checkOneElementType(*this, getInputs())))
    return failure();
  auto devices = mesh->getAttrOfType<ArrayAttr>(DistDialect::kDevices);
  llvm::SmallDenseSet<Attribute> ranks;
  for (int64_t stage : getStages()) {
    if (!devices || stage < 0 || stage >= static_cast<int64_t>(devices.size()))
      return emitOpError("the mesh has no such stage: ") << stage;
    if (!ranks.insert(devices[stage]).second)
      return emitOpError("names two stages of one rank: ") << stage;
  }
  if (getAxesAttr() && !toAxes(getAxesAttr(), toMesh(mesh)))
    return emitOpError("names an axis that the mesh lacks: ") << getAxesAttr();
  return success();
}

/// Element by element. What is pending is completed before: stages may differ in it.
sharding::ShardingRule StageSumOp::buildShardingRule(UnitFactors) {
  sharding::RuleBuilder rule(getNumOperands(), getNumResults());
  for (auto [i, input] : llvm::enumerate(getInputs()))
    for (int64_t size : graph::shapeOf(input)) {
      sharding::FactorId factor = rule.factor(size);
      rule.operandDim(static_cast<int>(i), factor).resultDim(static_cast<int>(i), factor);
    }
  return rule.build();
}

#define GET_OP_CLASSES
#include "dtc/Dialect/Dist/StageOps.cpp.inc"
