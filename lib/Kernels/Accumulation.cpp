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

void foldAccumulation(func::FuncOp function) {
  SmallVector<exec::MatmulOp> replaced;
  for (auto sum : llvm::to_vector(function.getBody().front().getOps<graph::SumOp>())) {
    BlockArgument before = accumulatorOf(sum);
    exec::MatmulOp product = before ? productOf(sum->getOperand(1)) : exec::MatmulOp();
    if (!product)
      continue;
    addInProduct(product, before, sum);
    sum.erase();
    replaced.push_back(product);
  }
  eraseDeadViews(function);
  for (exec::MatmulOp product : replaced)
    product.erase();
}

} // namespace dtc::kernels
