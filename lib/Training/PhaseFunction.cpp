#include "PhaseFunction.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

PhaseFunction::PhaseFunction(ModuleOp module, StringRef name) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  function = func::FuncOp::create(builder, module.getLoc(), name, builder.getFunctionType({}, {}));
  function.addEntryBlock();
  setRuns(function, Cadence::Step);
}

PhaseFunction::PhaseFunction(func::FuncOp func) : function(func) {
  argumentRoles.resize(func.getNumArguments()); // those stay as they are
  body().getTerminator()->erase();
  function.removeResAttrsAttr();
}

Value PhaseFunction::argument(Type type, RoleAttr role) {
  argumentRoles.push_back(role);
  return body().addArgument(type, function.getLoc());
}

void PhaseFunction::declareArguments() {
  function.setType(FunctionType::get(function.getContext(), body().getArgumentTypes(),
                                     function.getResultTypes()));
  setArgAttrs(function, GraphDialect::kRole, argumentRoles);
}

void PhaseFunction::result(Value value, RoleAttr role) {
  results.push_back(value);
  resultRoles.push_back(role);
}

void PhaseFunction::finish() {
  declareArguments();
  OpBuilder end = builder();
  func::ReturnOp::create(end, function.getLoc(), results);
  function.setType(FunctionType::get(function.getContext(), body().getArgumentTypes(),
                                     llvm::to_vector(ValueRange(results).getTypes())));
  setResultAttrs(function, GraphDialect::kRole, resultRoles);
}

RoleAttr roleOf(MLIRContext *context, RoleKind kind, StringRef name) {
  return RoleAttr::get(context, kind, name, std::nullopt, std::nullopt);
}

RoleAttr stateRole(MLIRContext *context, StringRef name, StateKind state) {
  return RoleAttr::get(context, RoleKind::State, name, state, std::nullopt);
}

RoleAttr scalarRole(MLIRContext *context, ScalarKind scalar) {
  return RoleAttr::get(context, RoleKind::Scalar, "", std::nullopt, scalar);
}

void eraseDeadOps(Block &block, ArrayRef<Value> keep) {
  auto isKept = [&](Value result) { return llvm::is_contained(keep, result); };
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op) && llvm::none_of(op.getResults(), isKept))
      op.erase();
}

} // namespace dtc::training
