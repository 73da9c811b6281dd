// Which ops libraries compute, whole or beside a product.
#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>

namespace dtc::plan {

bool isLibraryCall(const Op &op) {
  return op.kind == OpKind::Contraction || op.kind == OpKind::Attention;
}

bool isInLibraryCall(const Op &op) { return isLibraryCall(op) || op.inProduct; }

bool multipliesCopies(const Problem &problem, const Op &op) {
  if (!op.widened || op.kind != OpKind::Contraction)
    return op.widened && op.kind == OpKind::Attention;
  const Op &forward = op.forward >= 0 ? problem.ops[op.forward] : op;
  return forward.widened &&
         byteSize(problem.values[forward.results[0]].type) < byteSize(DType::F32);
}

bool isMadeWithProduct(const Problem &problem, const ProblemFacts &facts, OpId id) {
  const Op &op = problem.ops[id];
  const std::vector<OpId> &readers = facts.consumers[op.results[0]];
  return op.inProduct &&
         (facts.materialized[op.results[0]] ||
          std::ranges::all_of(readers, [&](OpId reader) { return problem.ops[reader].inProduct; }));
}

bool isMatrixProduct(const Op &op) {
  using sharding::FactorKind;
  return op.kind == OpKind::Contraction && op.operands.size() == 2 && op.results.size() == 1 &&
         std::ranges::all_of(op.rule->factors, [](const sharding::Factor &factor) {
           return factor.kind == FactorKind::Parallel || factor.kind == FactorKind::Reduction;
         });
}

bool isConvolution(const Op &op) {
  return op.kind == OpKind::Contraction && !op.isGroupedProduct() && !isMatrixProduct(op);
}

bool isAddedByCall(const Problem &problem, const ProblemFacts &facts, OpId id) {
  const Op &sum = problem.ops[id];
  if (sum.kind != OpKind::GradientSum || sum.operands.size() != 2 ||
      problem.values[sum.operands[0]].kind != ValueKind::Accumulator)
    return false;
  ValueId term = sum.operands[1];
  while (facts.producer[term] >= 0 && facts.consumers[term].size() == 1 && !facts.isResult[term]) {
    const Op &op = problem.ops[facts.producer[term]];
    if (op.kind != OpKind::View || op.operands.size() != 1)
      return isMatrixProduct(op) || (isConvolution(op) && !op.widened && term == sum.operands[1]);
    term = op.operands[0];
  }
  return false;
}

} // namespace dtc::plan
