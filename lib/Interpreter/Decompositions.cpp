#include "Decompositions.h"

#include "dtc/Dialect/Graph/OpIdentity.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dtc::interpreter {

static std::vector<uintptr_t> keyOf(Operation *op) {
  std::vector<uintptr_t> key;
  auto add = [&](auto handle) {
    key.push_back(reinterpret_cast<uintptr_t>(handle.getAsOpaquePointer()));
  };
  add(op->getName());
  key.push_back(op->getNumOperands());
  llvm::for_each(op->getOperandTypes(), add);
  llvm::for_each(op->getResultTypes(), add);
  graph::appendOwnAttributes(op, key);
  return key;
}

static FailureOr<OwningOpRef<func::FuncOp>> decompose(DecomposableOpInterface op) {
  OpBuilder builder(op->getContext());
  auto type = builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
  OwningOpRef<func::FuncOp> func =
      func::FuncOp::create(op->getLoc(), op->getName().getStringRef(), type);
  Block *body = func->addEntryBlock();
  builder.setInsertionPointToEnd(body);
  IRMapping mapping;
  Operation *copy = builder.clone(*op, mapping);
  copy->setOperands(body->getArguments());
  builder.setInsertionPoint(copy);
  auto parts = cast<DecomposableOpInterface>(copy).decompose(builder);
  if (failed(parts))
    return failure();
  func::ReturnOp::create(builder, op->getLoc(), *parts);
  copy->erase();
  if (failed(verify(*func)))
    return failure();
  return func;
}

FailureOr<func::FuncOp> Decompositions::of(DecomposableOpInterface op) {
  std::vector<uintptr_t> key = keyOf(op);
  if (auto found = known.find(key); found != known.end())
    return *found->second;
  FailureOr<OwningOpRef<func::FuncOp>> fresh = decompose(op);
  if (failed(fresh))
    return failure();
  return *known.emplace(std::move(key), std::move(*fresh)).first->second;
}

} // namespace dtc::interpreter
