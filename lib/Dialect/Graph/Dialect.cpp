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

/// The dictionaries of `present`, which may be null or of fewer, with `name` set to `attrs`.
static ArrayAttr withAttrs(ArrayAttr present, StringAttr name, ArrayRef<Attribute> attrs) {
  SmallVector<Attribute> result;
  for (auto [i, attr] : llvm::enumerate(attrs)) {
    NamedAttrList list;
    if (present && i < present.size())
      list = cast<DictionaryAttr>(present[i]);
    if (attr)
      list.set(name, attr);
    result.push_back(list.getDictionary(name.getContext()));
  }
  return ArrayAttr::get(name.getContext(), result);
}

static bool isNull(Attribute attr) { return !attr; }

void setArgAttrs(func::FuncOp func, StringRef name, ArrayRef<Attribute> attrs) {
  if (llvm::all_of(attrs, isNull))
    return;
  auto key = StringAttr::get(func.getContext(), name);
  func.setArgAttrsAttr(withAttrs(func.getArgAttrsAttr(), key, attrs));
}

void setResultAttrs(func::FuncOp func, StringRef name, ArrayRef<Attribute> attrs) {
  if (llvm::all_of(attrs, isNull))
    return;
  auto key = StringAttr::get(func.getContext(), name);
  func.setResAttrsAttr(withAttrs(func.getResAttrsAttr(), key, attrs));
}

llvm::ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : llvm::ArrayRef<int64_t>();
}

} // namespace dtc::graph
