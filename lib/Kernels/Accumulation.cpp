#include "Accumulation.h"
#include "StridedView.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;

namespace dtc::kernels {

/// What came before, of a sum of that and one more term: an argument that nothing else reads, and
/// whose place the sum takes. Null for any other sum.
static BlockArgument accumulatorOf(graph::SumOp sum) {
  if (sum->getNumOperands() != 2)
    return {};
  auto argument = dyn_cast<BlockArgument>(graph::withoutReshapes(sum->getOperand(0)));
  auto function = cast<func::FuncOp>(sum->getParentOp());
  graph::RoleAttr role =
      argument ? graph::getArgRole(function, argument.getArgNumber()) : graph::RoleAttr();
  return role && graph::isSummedUp(role) && argument.hasOneUse() ? argument : BlockArgument();
}

/// The product that makes a term, if nothing else reads it on the way there.
static exec::MatmulOp productOf(Value term) {
  while (auto reshape = term.getDefiningOp<graph::ReshapeOp>()) {
    if (!term.hasOneUse())
      return {};
    term = reshape.getInput();
  }
  auto product = term.getDefiningOp<exec::MatmulOp>();
  const bool isAlone = product && term == product.getResult() && term.hasOneUse();
  return isAlone && !product.getExtra() && product.mayAddExtra() ? product : exec::MatmulOp();
}

/// `product` with what it is added to, as the sum of both.
static void addInProduct(exec::MatmulOp product, BlockArgument before, graph::SumOp sum) {
  OpBuilder builder(product);
  Type also = product.getAlso() ? product.getAlso().getType() : Type();
  auto made = exec::MatmulOp::create(
      builder, product.getLoc(), sum.getType(), also, product.getLhs(), product.getRhs(), before,
      product.getBatch(), product.getMnk(), product.getLhsStrides(), product.getRhsStrides(),
      product.getResultStrides(), product.getOffsets(), product.getEpilogueAttr());
  made->setDiscardableAttrs(llvm::to_vector(product->getDiscardableAttrs()));
  sum.getResult().replaceAllUsesWith(made.getResult());
  if (also)
    product.getAlso().replaceAllUsesWith(made.getAlso());
}

/// The gradient of a convolution's weight that is a term, if nothing else reads it. What is before
/// has its shape: a library that adds to its result knows no other.
static graph::ConvWeightGradOp convolutionOf(Value term, BlockArgument before) {
  auto gradient = term.getDefiningOp<graph::ConvWeightGradOp>();
  const bool isAlone = gradient && term.hasOneUse() && term.getType() == before.getType();
  return isAlone ? gradient : graph::ConvWeightGradOp();
}

static void addInConvolution(graph::ConvWeightGradOp gradient, BlockArgument before,
                             graph::SumOp sum) {
  OpBuilder builder(gradient);
  auto made = exec::ConvWeightGradOp::create(
      builder, gradient.getLoc(), sum.getType(), gradient.getInput(), gradient.getGrad(), before,
      gradient.getGroups(), gradient.getStrides(), gradient.getPadLow(), gradient.getPadHigh(),
      gradient.getDilations());
  made->setDiscardableAttrs(llvm::to_vector(gradient->getDiscardableAttrs()));
  sum.getResult().replaceAllUsesWith(made.getResult());
}

/// The call that makes a term of the sum adds to what came before; returns the call without. Null
/// where none can.
static Operation *addInCall(graph::SumOp sum, BlockArgument before, const target::Target &target) {
  Value term = sum->getOperand(1);
  if (exec::MatmulOp product = productOf(term); product && target.matmulLimits().accumulates) {
    addInProduct(product, before, sum);
    return product;
  }
  graph::ConvWeightGradOp gradient = convolutionOf(term, before);
  if (!gradient || !target.accumulatesConvolutions())
    return nullptr;
  addInConvolution(gradient, before, sum);
  return gradient;
}

void foldAccumulation(func::FuncOp function, const target::Target &target) {
  SmallVector<Operation *> replaced;
  for (auto sum : llvm::to_vector(function.getBody().front().getOps<graph::SumOp>())) {
    BlockArgument before = accumulatorOf(sum);
    Operation *call = before ? addInCall(sum, before, target) : nullptr;
    if (!call)
      continue;
    sum.erase();
    replaced.push_back(call);
  }
  eraseDeadViews(function);
  for (Operation *call : replaced)
    call->erase();
}

} // namespace dtc::kernels
