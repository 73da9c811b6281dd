#include "SumInTurn.h"

#include "dtc/Dialect/Dist/Dist.h"
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

/// The sum of a gradient's terms, of what is only brought to other ranks and added to what earlier
/// microbatches left; null where there is none.
static graph::SumOp sumOfTerms(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto sum = dyn_cast<graph::SumOp>(op);
    if (sum && (sum->getNumOperands() != 2 || !isa<BlockArgument>(sum->getOperand(0))))
      return sum;
    if (sum)
      value = sum->getOperand(1);
    else if (isa<dist::AllReduceOp, dist::ReduceScatterOp>(op))
      value = op->getOperand(cast<OpResult>(value).getResultNumber());
    else if (isa<graph::ReshapeOp, graph::PadOp, graph::SliceOp>(op))
      value = op->getOperand(0);
    else
      break;
  }
  return {};
}

/// Whether a kernel reduces what is larger than the term to it.
static bool isReduced(Value term) {
  Operation *maker = term.getDefiningOp();
  while (maker && maker->getNumOperands() == 1 && !isa<graph::ReduceOp, graph::BarrierOp>(maker))
    maker = maker->getOperand(0).getDefiningOp();
  return isa_and_present<graph::ReduceOp>(maker);
}

/// What the sum's kernel would reduce, but for the last: that is made where the sum is.
static void storeTerms(graph::SumOp sum) {
  Value last = sum->getOperand(0);
  for (Value term : sum->getOperands())
    last = isBefore(last, term) ? term : last;
  for (OpOperand &operand : sum->getOpOperands()) {
    const Value term = operand.get();
    if (term == last || !isReduced(term))
      continue;
    OpBuilder builder(sum.getContext());
    builder.setInsertionPointAfterValue(term);
    operand.set(graph::BarrierOp::create(builder, term.getLoc(), term.getType(), term));
  }
}

void sumInTurn(func::FuncOp function) {
  Operation *end = function.getBody().front().getTerminator();
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    graph::RoleAttr role = graph::getResultRole(function, i);
    auto sum = end->getOperand(i).getDefiningOp<graph::SumOp>();
    if (!role || role.getKind() != graph::RoleKind::Gradient)
      continue;
    const SmallVector<Value> terms = sum ? termsOf(sum) : SmallVector<Value>();
    if (!areMany(function, terms, role)) {
      if (graph::SumOp apart = sumOfTerms(end->getOperand(i)))
        storeTerms(apart);
      continue;
    }
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
