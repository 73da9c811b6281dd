#include "dtc/Kernels/GroupedForm.h"
#include "dtc/Kernels/MatmulForm.h"

using namespace mlir;

namespace dtc::kernels {

using graph::shapeOf;

namespace {

/// Indices of a kind, which become one.
using Indices = SmallVector<ContractionIndex>;

std::array<ArrayRef<int64_t>, 3> indicesOf(graph::GroupedContractOp &op) {
  return {op.getLhsIndices(), op.getRhsIndices(), op.getResultIndices()};
}

/// By number, with the strides of whole tensors.
Indices stridedIndices(graph::GroupedContractOp op) {
  SmallVector<int64_t> sizes = op.getIndexSizes();
  Indices indices(sizes.size());
  for (auto [index, size] : llvm::zip_equal(indices, sizes))
    index.size = size;
  for (auto [tensor, numbers] : llvm::enumerate(indicesOf(op))) {
    int64_t stride = 1;
    for (int64_t number : llvm::reverse(numbers)) {
      indices[number].strides[tensor] = stride;
      stride *= sizes[number];
    }
  }
  return indices;
}

/// Neighbours as one index; none where they don't lie side by side.
std::optional<ContractionIndex> joined(Indices indices, Tensor order) {
  llvm::stable_sort(indices, [&](const ContractionIndex &a, const ContractionIndex &b) {
    return *a.strides[order] > *b.strides[order];
  });
  ContractionIndex whole = indices.front();
  for (const ContractionIndex &inner : ArrayRef(indices).drop_front()) {
    for (int tensor : {Lhs, Rhs, Result})
      if (inner.strides[tensor] && *whole.strides[tensor] != *inner.strides[tensor] * inner.size)
        return std::nullopt;
    whole.strides = inner.strides;
    whole.size *= inner.size;
  }
  return whole;
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
  if (m.empty() || n.empty() || k.empty())
    return std::nullopt;
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
