#include "ContractIndices.h"

#include "Verify.h"

using namespace mlir;

namespace dtc::graph {

/// Enters the sizes of one tensor's indices into `sizes` (-1: not yet known).
static LogicalResult enterSizes(Operation *op, const IndexedTensor &tensor,
                                SmallVectorImpl<int64_t> &sizes) {
  ArrayRef<int64_t> shape = shapeOf(tensor.value), indices = tensor.indices;
  if (indices.size() != shape.size())
    return verifyLength(op, indices, shape.size(), (tensor.what + " indices").str());
  for (auto [i, index, size] : llvm::enumerate(indices, shape)) {
    if (index < 0 || index >= static_cast<int64_t>(sizes.size()))
      return op->emitOpError() << "indices must be numbered from 0 without gaps: " << index;
    if (llvm::is_contained(indices.take_front(i), index))
      return op->emitOpError() << tensor.what << " must not repeat an index: " << index;
    if (sizes[index] >= 0 && sizes[index] != size)
      return op->emitOpError() << "index " << index << " of the " << tensor.what
                               << " must have the size it has elsewhere, " << sizes[index] << ": "
                               << size;
    sizes[index] = size;
  }
  return success();
}

LogicalResult verifyIndexSizes(Operation *op, ArrayRef<IndexedTensor> tensors, size_t numbering) {
  SmallVector<int64_t> distinct;
  for (const IndexedTensor &tensor : tensors.take_front(numbering))
    llvm::append_range(distinct, tensor.indices);
  llvm::sort(distinct);
  distinct.erase(llvm::unique(distinct), distinct.end());
  SmallVector<int64_t> sizes(distinct.size(), -1);
  for (const IndexedTensor &tensor : tensors)
    if (failed(enterSizes(op, tensor, sizes)))
      return failure();
  return success();
}

SmallVector<int64_t> sizesByIndex(ArrayRef<IndexedTensor> tensors) {
  SmallVector<int64_t> sizes;
  for (const IndexedTensor &tensor : tensors)
    for (auto [index, size] : llvm::zip_equal(tensor.indices, shapeOf(tensor.value))) {
      if (index >= static_cast<int64_t>(sizes.size()))
        sizes.resize(index + 1, 1);
      sizes[index] = size;
    }
  return sizes;
}

SmallVector<int64_t> partIndices(GroupedContractOp op) {
  SmallVector<int64_t> parts;
  for (int64_t index : op.getChoiceIndices())
    if (llvm::is_contained(op.getLhsIndices(), index) &&
        llvm::is_contained(op.getRhsIndices(), index) &&
        llvm::is_contained(op.getResultIndices(), index))
      parts.push_back(index);
  return parts;
}

} // namespace dtc::graph
