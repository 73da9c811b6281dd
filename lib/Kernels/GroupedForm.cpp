#include "dtc/Kernels/GroupedForm.h"
#include "StridedView.h"

#include "dtc/Kernels/MatmulForm.h"

using namespace mlir;

namespace dtc::kernels {

namespace {

/// Indices of a kind, which become one.
using Indices = std::vector<ContractionIndex>;

std::array<ArrayRef<int64_t>, 3> indicesOf(graph::GroupedContractOp &op) {
  return {op.getLhsIndices(), op.getRhsIndices(), op.getResultIndices()};
}

/// By number, with the strides of whole tensors.
Indices stridedIndices(graph::GroupedContractOp op) {
  SmallVector<int64_t> sizes = op.getIndexSizes();
  Indices indices(sizes.size());
  for (auto [index, size] : llvm::zip_equal(indices, sizes))
    index.size = size;
  const Value tensors[] = {op.getLhs(), op.getRhs(), op.getResult()};
  for (auto [tensor, numbers] : llvm::enumerate(indicesOf(op)))
    for (auto [number, stride] : llvm::zip_equal(numbers, denseView(tensors[tensor]).strides))
      indices[number].strides[tensor] = stride;
  return indices;
}

/// As one index; none where they don't lie side by side.
std::optional<ContractionIndex> joined(const Indices &indices, Tensor order) {
  Indices merged = mergeNeighbours(indices, order);
  return merged.size() == 1 ? std::optional(merged.front()) : std::nullopt;
}

} // namespace

std::optional<GroupedForm> groupedForm(graph::GroupedContractOp op) {
  Indices all = stridedIndices(op), m, n, k;
  GroupedForm form;
  auto add = [&](std::array<int64_t, 3> own) {
    for (auto [strides, stride] : llvm::zip_equal(form.strides, own))
      strides.push_back(stride);
  };
  for (int64_t number : op.getChoiceIndices()) {
    const ContractionIndex &index = all[number];
    form.batch.push_back(index.size);
    add({index.strides[0].value_or(0), index.strides[1].value_or(0), index.strides[2].value_or(0)});
  }
  for (auto [number, index] : llvm::enumerate(all)) {
    const auto &[lhs, rhs, result] = index.strides;
    if (number == op.getExperts())
      form.experts = {lhs.value_or(0), rhs.value_or(0), result.value_or(0)};
    else if (llvm::is_contained(op.getChoiceIndices(), static_cast<int64_t>(number)))
      continue;
    else if (lhs && rhs && result)
      return std::nullopt;
    else
      (!result ? k : lhs ? m : n).push_back(index);
  }
  auto rows = joined(m, Lhs), columns = joined(n, Rhs), summed = joined(k, Lhs);
  if (!rows || !columns || !summed)
    return std::nullopt;
  form.m = rows->size;
  form.n = columns->size;
  form.k = summed->size;
  add({*rows->strides[Lhs], *summed->strides[Rhs], *rows->strides[Result]});
  add({*summed->strides[Lhs], *columns->strides[Rhs], *columns->strides[Result]});
  if (form.strides[Result].back() == 1)
    return form;
  if (*rows->strides[Result] != 1)
    return std::nullopt;
  std::swap(form.m, form.n);
  std::swap(form.strides[Lhs], form.strides[Rhs]);
  std::swap(form.experts[Lhs], form.experts[Rhs]);
  for (auto &strides : form.strides)
    std::swap(strides.back(), strides[strides.size() - 2]);
  form.swapped = true;
  return form;
}

} // namespace dtc::kernels
