#include "SumInTurn.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Sharding/TermsOfGradients.h"

using namespace mlir;

namespace dtc::kernels {

/// A gradient's terms, and the sum of earlier microbatches if there is one, in front.
static SmallVector<Value> termsOf(graph::SumOp sum) {
  SmallVector<Value> terms(sum.getInputs());
  if (terms.size() == 2 && isa<BlockArgument>(terms[0]))
    if (auto inner = terms[1].getDefiningOp<graph::SumOp>(); inner && inner->hasOneUse()) {
      terms.pop_back();
      terms.append(inner.getInputs().begin(), inner.getInputs().end());
    }
  return terms;
}

static bool isBefore(Value a, Value b) {
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  return first && second ? first->isBeforeInBlock(second) : second != nullptr;
}

/// Where a backward pass is two functions, the second one may have terms of the first as arguments.
/// They count, and have their place, as in a pass that is one: both give the same bits.
static bool areMany(func::FuncOp function, ArrayRef<Value> terms, graph::RoleAttr gradient) {
  return llvm::count_if(terms, [&](Value term) {
           auto argument = dyn_cast<BlockArgument>(term);
           return !argument || graph::getArgRole(function, argument.getArgNumber()) != gradient;
         }) > sharding::kMostSummedTogether;
}

void sumInTurn(func::FuncOp function) {
  Operation *end = function.getBody().front().getTerminator();
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    graph::RoleAttr role = graph::getResultRole(function, i);
    auto sum = end->getOperand(i).getDefiningOp<graph::SumOp>();
    if (!role || role.getKind() != graph::RoleKind::Gradient || !sum)
      continue;
    const SmallVector<Value> terms = termsOf(sum);
    if (!areMany(function, terms, role))
      continue;
    Value total = terms.front();
    for (Value term : llvm::drop_begin(terms)) {
      OpBuilder builder(function.getContext());
      builder.setInsertionPointAfterValue(isBefore(term, total) ? total : term);
      if (total != terms.front() && term.getDefiningOp())
        total = graph::BarrierOp::create(builder, sum.getLoc(), sum.getType(), total);
      total = graph::SumOp::create(builder, sum.getLoc(), sum.getType(), ValueRange{total, term});
    }
    total.getDefiningOp()->setDiscardableAttrs(llvm::to_vector(sum->getDiscardableAttrs()));
    sum.replaceAllUsesWith(total);
    const SmallVector<Value> read(sum.getInputs());
    sum.erase();
    for (Value value : read)
      if (Operation *inner = value.getDefiningOp(); inner && inner->use_empty())
        inner->erase();
  }
}

} // namespace dtc::kernels
