#include "dtc/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace dtc::graph;

#include "dtc/Dialect/Graph/GraphDialect.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/GraphOps.cpp.inc"

void GraphDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dtc/Dialect/Graph/GraphOps.cpp.inc"
      >();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                             Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

namespace dtc::graph {

RoleAttr getArgRole(func::FuncOp func, unsigned index) {
  return func.getArgAttrOfType<RoleAttr>(index, GraphDialect::kRole);
}

RoleAttr getResultRole(func::FuncOp func, unsigned index) {
  return func.getResultAttrOfType<RoleAttr>(index, GraphDialect::kRole);
}

llvm::ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : llvm::ArrayRef<int64_t>();
}

} // namespace dtc::graph
