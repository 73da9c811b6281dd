#include "ContractIndices.h"
#include "Rules.h"
#include "Verify.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

static SmallVector<IndexedTensor, 3> tensorsOf(ContractOp op) {
  return {{op.getLhs(), op.getLhsIndices(), "left operand"},
          {op.getRhs(), op.getRhsIndices(), "right operand"},
          {op.getResult(), op.getResultIndices(), "result"}};
}

LogicalResult ContractOp::verify() {
  if (failed(verifySameElementType(*this, getRhs(), getLhs(), "right operand")) ||
      failed(verifySameOrWider(*this, getResult(), getLhs(), "result")))
    return failure();
  if (failed(verifyIndexSizes(*this, tensorsOf(*this), /*numbering=*/2)))
    return failure();
  ArrayRef<int64_t> lhs = getLhsIndices(), rhs = getRhsIndices(), result = getResultIndices();
  auto count = static_cast<int64_t>(getIndexSizes().size());
  for (int64_t index = 0; index < count; ++index)
    if (!llvm::is_contained(result, index) &&
        !(llvm::is_contained(lhs, index) && llvm::is_contained(rhs, index)))
      return emitOpError() << "an index of one operand alone must be in the result: " << index;
  return success();
}

SmallVector<int64_t> ContractOp::getIndexSizes() { return sizesByIndex(tensorsOf(*this)); }

ShardingRule ContractOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims;
  for (auto [index, size] : llvm::enumerate(getIndexSizes())) {
    bool kept = llvm::is_contained(getResultIndices(), static_cast<int64_t>(index));
    dims.push_back(rule.factor(size, kept ? FactorKind::Parallel : FactorKind::Reduction));
  }
  auto select = [&](ArrayRef<int64_t> indices) {
    return llvm::map_to_vector(indices, [&](int64_t index) { return dims[index]; });
  };
  rule.operand(0, select(getLhsIndices())).operand(1, select(getRhsIndices()));
  return rule.result(0, select(getResultIndices())).linear({0}).linear({1}).build();
}

OpCost ContractOp::getCost() {
  double flops = 2;
  for (int64_t size : getIndexSizes())
    flops *= size;
  return {.kind = OpKind::Contraction, .flops = flops};
}
