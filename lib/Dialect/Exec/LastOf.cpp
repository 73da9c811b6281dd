#include "dtc/Dialect/Exec/LastOf.h"

#include "VerifyAttributes.h"

using namespace mlir;

namespace dtc::exec {

void setLastOf(func::FuncOp last, func::FuncOp function) {
  last->setAttr(kLastOf, FlatSymbolRefAttr::get(function.getSymNameAttr()));
}

llvm::StringRef lastOf(func::FuncOp last) {
  auto name = last->getAttrOfType<FlatSymbolRefAttr>(kLastOf);
  return name ? name.getValue() : llvm::StringRef();
}

/// The types of its arguments' and results' places.
static FunctionType placesOf(func::FuncOp function) {
  auto placeOf = [](Type type, DictionaryAttr attributes) -> Type {
    auto room = attributes ? attributes.getAs<TypeAttr>(kRoom) : TypeAttr();
    auto whole = room ? dyn_cast<RankedTensorType>(room.getValue()) : RankedTensorType();
    return whole ? RankedTensorType::get(whole.getShape(), whole.getElementType()) : type;
  };
  SmallVector<Type> arguments, results;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    arguments.push_back(placeOf(type, function.getArgAttrDict(i)));
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    results.push_back(placeOf(type, function.getResultAttrDict(i)));
  return FunctionType::get(function.getContext(), arguments, results);
}

LogicalResult verifyLastOf(Operation *op, Attribute attribute) {
  auto last = dyn_cast<func::FuncOp>(op);
  auto name = dyn_cast<FlatSymbolRefAttr>(attribute);
  if (!last || !name)
    return op->emitOpError("exec.last_of must be on a function and name one, got: ") << attribute;
  auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(last, name);
  if (!function || function == last || function->hasAttr(kLastOf))
    return last.emitOpError("stands for what is no function of other microbatches: ") << name;
  if (!graph::runsPerMicrobatch(function) || !graph::runsPerMicrobatch(last))
    return last.emitOpError("stands for a function, but both must run for each microbatch: ")
           << name;
  if (placesOf(function) != placesOf(last))
    return last.emitOpError("stands for a function of another type: ") << name;
  return success();
}

} // namespace dtc::exec
