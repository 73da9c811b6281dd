#include "Rules.h"
#include "Verify.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

LogicalResult dtc::graph::enterIndexSizes(Operation *op, Value value, ArrayRef<int64_t> indices,
                                          SmallVectorImpl<int64_t> &sizes, StringRef what) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (indices.size() != shape.size())
    return verifyLength(op, indices, shape.size(), (what + " indices").str());
  for (auto [i, index, size] : llvm::enumerate(indices, shape)) {
    if (index < 0 || index >= static_cast<int64_t>(sizes.size()))
      return op->emitOpError() << "indices must be numbered from 0 without gaps: " << index;
    if (llvm::is_contained(indices.take_front(i), index))
      return op->emitOpError() << what << " must not repeat an index: " << index;
    if (sizes[index] >= 0 && sizes[index] != size)
      return op->emitOpError() << "index " << index << " of the " << what
                              << " must have the size it has elsewhere, " << sizes[index] << ": "
                              << size;
    sizes[index] = size;
  }
  return success();
}

LogicalResult ContractOp::verify() {
  if (failed(verifySameElementType(*this, getRhs(), getLhs(), "right operand")) ||
      failed(verifySameOrWider(*this, getResult(), getLhs(), "result")))
    return failure();
  ArrayRef<int64_t> lhs = getLhsIndices(), rhs = getRhsIndices(), result = getResultIndices();
  SmallVector<int64_t> distinct(lhs);
  distinct.append(rhs.begin(), rhs.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(llvm::unique(distinct), distinct.end());
  SmallVector<int64_t> sizes(distinct.size(), -1);
  if (failed(enterIndexSizes(*this, getLhs(), lhs, sizes, "left operand")) ||
      failed(enterIndexSizes(*this, getRhs(), rhs, sizes, "right operand")) ||
      failed(enterIndexSizes(*this, getResult(), result, sizes, "result")))
    return failure();
  for (int64_t index = 0; index < static_cast<int64_t>(sizes.size()); ++index)
    if (!llvm::is_contained(result, index) &&
        !(llvm::is_contained(lhs, index) && llvm::is_contained(rhs, index)))
      return emitOpError() << "an index of one operand alone must be in the result: " << index;
  return success();
}

SmallVector<int64_t> ContractOp::getIndexSizes() {
  SmallVector<int64_t> sizes;
  auto enter = [&](ArrayRef<int64_t> indices, ArrayRef<int64_t> shape) {
    for (auto [index, size] : llvm::zip_equal(indices, shape)) {
      if (index >= static_cast<int64_t>(sizes.size()))
        sizes.resize(index + 1, 1);
      sizes[index] = size;
    }
  };
  enter(getLhsIndices(), shapeOf(getLhs()));
  enter(getRhsIndices(), shapeOf(getRhs()));
  return sizes;
}

ShardingRule ContractOp::getShardingRule() {
  OpRule rule(*this);
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

double ContractOp::getContractionFlops() {
  double flops = 2;
  for (int64_t size : getIndexSizes())
    flops *= size;
  return flops;
}
