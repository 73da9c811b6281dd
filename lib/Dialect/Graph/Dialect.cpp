#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Dialect/Graph/SlotOps.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/StopGradientOp.h"

using namespace mlir;
using namespace dtc::graph;

#include "dtc/Dialect/Graph/GraphDialect.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/GraphOps.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/AttentionPartOps.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/RandomOps.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/SlotOps.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/StepOps.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/StopGradientOp.cpp.inc"

void GraphDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dtc/Dialect/Graph/GraphOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "dtc/Dialect/Graph/AttentionPartOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "dtc/Dialect/Graph/RandomOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "dtc/Dialect/Graph/SlotOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "dtc/Dialect/Graph/StepOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "dtc/Dialect/Graph/StopGradientOp.cpp.inc"
      >();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                             Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

namespace dtc::graph {

/// Compares names only where a role is: roles are asked for often, and names are texts.
static RoleAttr roleIn(ArrayAttr dictionaries, unsigned index) {
  if (!dictionaries)
    return {};
  for (NamedAttribute attr : cast<DictionaryAttr>(dictionaries[index]))
    if (auto role = dyn_cast<RoleAttr>(attr.getValue()))
      if (attr.getName() == GraphDialect::kRole)
        return role;
  return {};
}

RoleAttr getArgRole(func::FuncOp func, unsigned index) {
  return roleIn(func.getArgAttrsAttr(), index);
}

RunsAttr getRuns(func::FuncOp func) {
  return func->getAttrOfType<RunsAttr>(GraphDialect::kRuns);
}

void setRuns(func::FuncOp func, Cadence cadence, Passes passes, int64_t chunk) {
  func->setAttr(GraphDialect::kRuns,
                RunsAttr::get(func.getContext(), cadence, passes, chunk));
}

RoleAttr getResultRole(func::FuncOp func, unsigned index) {
  return roleIn(func.getResAttrsAttr(), index);
}

/// The dictionaries of `present`, which may be null or of fewer, with `name` set to `attrs`.
static ArrayAttr withAttrs(ArrayAttr present, StringAttr name, ArrayRef<Attribute> attrs) {
  SmallVector<Attribute> result;
  auto none = DictionaryAttr::get(name.getContext());
  for (auto [i, attr] : llvm::enumerate(attrs)) {
    auto dictionary = present && i < present.size() ? cast<DictionaryAttr>(present[i]) : none;
    if (attr && !llvm::is_contained(dictionary, NamedAttribute(name, attr))) {
      SmallVector<NamedAttribute> sorted(dictionary.begin(), dictionary.end());
      NamedAttribute entry(name, attr);
      auto place = llvm::lower_bound(sorted, entry);
      if (place != sorted.end() && place->getName() == name)
        *place = entry;
      else
        sorted.insert(place, entry);
      dictionary = DictionaryAttr::getWithSorted(name.getContext(), sorted);
    }
    result.push_back(dictionary);
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

Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

} // namespace dtc::graph
