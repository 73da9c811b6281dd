#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Raise/Passes.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_VIEWPARAMETERS
#include "dtc/Raise/Passes.h.inc"

/// The type to which every use reshapes the argument; null when they differ.
static RankedTensorType commonView(BlockArgument argument) {
  RankedTensorType view;
  for (Operation *user : argument.getUsers()) {
    auto reshape = dyn_cast<graph::ReshapeOp>(user);
    if (!reshape || (view && reshape.getType() != view))
      return {};
    view = reshape.getType();
  }
  return view;
}

/// Whether the op's result is a trainable parameter in another form, which costs nothing.
static bool isViewOfParameter(func::FuncOp func, Operation *op) {
  if (!isa<graph::ReshapeOp, graph::BroadcastOp, graph::TransposeOp>(op))
    return false;
  auto argument = dyn_cast<BlockArgument>(op->getOperand(0));
  if (!argument)
    return isViewOfParameter(func, op->getOperand(0).getDefiningOp());
  auto role = graph::getArgRole(func, argument.getArgNumber());
  return role && role.getKind() == graph::RoleKind::Parameter;
}

/// Of a weight that layers share, each gets a view of its own. Pipelines cut between layers would
/// send the one they had in common for each microbatch, and its gradients back.
static void divideViews(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front()))) {
    if (op.use_empty() || op.hasOneUse() || !isViewOfParameter(func, &op))
      continue;
    for (OpOperand &use : llvm::make_early_inc_range(op.getUses()))
      use.set(OpBuilder(use.getOwner()).clone(op)->getResult(0));
    op.erase();
  }
}

/// A result has what the buffer becomes, which keeps the shape that the buffer has now.
static bool isChanged(func::FuncOp func, graph::RoleAttr buffer) {
  return llvm::any_of(llvm::seq(func.getNumResults()),
                      [&](unsigned i) { return graph::getResultRole(func, i) == buffer; });
}

namespace {
struct ViewParameters : impl::ViewParametersBase<ViewParameters> {
  using ViewParametersBase::ViewParametersBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    auto func = symbols.lookup<func::FuncOp>(graph::kForward);
    if (!func || func.isExternal())
      return;
    for (BlockArgument argument : func.getArguments()) {
      auto role = graph::getArgRole(func, argument.getArgNumber());
      if (!role ||
          (role.getKind() != graph::RoleKind::Parameter &&
           role.getKind() != graph::RoleKind::Buffer) ||
          isChanged(func, role))
        continue;
      auto parameter = symbols.lookup<graph::ParameterOp>(role.getName());
      RankedTensorType view = parameter ? commonView(argument) : RankedTensorType();
      if (!view)
        continue;
      for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
        user->getResult(0).replaceAllUsesWith(argument);
        user->erase();
      }
      argument.setType(view);
      parameter.setType(view);
    }
    divideViews(func);
    func.setType(FunctionType::get(&getContext(), func.getBody().getArgumentTypes(),
                                   func.getResultTypes()));
  }
};
} // namespace

} // namespace dtc::raise
