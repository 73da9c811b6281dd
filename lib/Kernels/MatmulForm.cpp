#include "dtc/Kernels/MatmulForm.h"

#include <algorithm>
#include <utility>

namespace dtc::kernels {
namespace {

using Indices = std::vector<ContractionIndex>;

struct IndicesByRole {
  Indices batch, m, n, k;
};

/// Sorts the indices by kind. There is no order where one belongs to no kind. Nor is there where an
/// operand repeats (stride 0) along an index that it alone would have to give.
std::optional<IndicesByRole> group(const Indices &indices) {
  IndicesByRole groups;
  for (const ContractionIndex &index : indices) {
    if (index.size == 1)
      continue;
    const auto &[lhs, rhs, result] = index.strides;
    if (result && *result == 0)
      return std::nullopt;
    if (lhs && rhs && result && (*lhs != 0 || *rhs != 0))
      groups.batch.push_back(index);
    else if (lhs && !rhs && result && *lhs != 0)
      groups.m.push_back(index);
    else if (rhs && !lhs && result && *rhs != 0)
      groups.n.push_back(index);
    else if (lhs && rhs && !result && *lhs != 0 && *rhs != 0)
      groups.k.push_back(index);
    else
      return std::nullopt;
  }
  return groups;
}

bool merges(const ContractionIndex &outer, const ContractionIndex &inner) {
  for (int tensor : {Lhs, Rhs, Result})
    if (outer.strides[tensor] && *outer.strides[tensor] != *inner.strides[tensor] * inner.size)
      return false;
  return true;
}

bool hasUnitStride(const Indices &indices, Tensor tensor) {
  return std::any_of(indices.begin(), indices.end(), [&](const ContractionIndex &index) {
    return index.strides[tensor] == 1;
  });
}

/// Takes the matrix dimension out of a group; the others stay. The one that
/// `mustBeUnit` demands has stride 1 in that tensor; else the largest.
std::optional<ContractionIndex> takeMatrixDimension(Indices &group,
                                                    std::optional<Tensor> mustBeUnit) {
  auto best = group.end();
  for (auto it = group.begin(); it != group.end(); ++it) {
    if (mustBeUnit && it->strides[*mustBeUnit] != 1)
      continue;
    if (best == group.end() || it->size > best->size)
      best = it;
  }
  if (best == group.end())
    return std::nullopt;
  ContractionIndex taken = *best;
  group.erase(best);
  return taken;
}

void swapOperands(IndicesByRole &groups) {
  std::swap(groups.m, groups.n);
  for (Indices *indices : {&groups.batch, &groups.m, &groups.n, &groups.k})
    for (ContractionIndex &index : *indices)
      std::swap(index.strides[Lhs], index.strides[Rhs]);
}

/// The strides of a matrix [rows, columns]. Dimensions of size 1, whose stride
/// says nothing, get the one that a dense matrix would have.
std::pair<int64_t, int64_t> matrixStrides(const ContractionIndex &rows,
                                          const ContractionIndex &columns, Tensor tensor) {
  int64_t row = rows.strides[tensor].value_or(0), column = columns.strides[tensor].value_or(0);
  if (columns.size == 1)
    column = 1;
  if (rows.size == 1)
    row = column == 1 ? columns.size : 1;
  return {row, column};
}

/// One matrix dimension has unit stride and the other does not lie within it.
bool isPlain(const ContractionIndex &rows, const ContractionIndex &columns, Tensor tensor) {
  auto [row, column] = matrixStrides(rows, columns, tensor);
  return (column == 1 && row >= columns.size) || (row == 1 && column >= rows.size);
}

void appendStrides(MatmulForm &form, const Indices &batch, const ContractionIndex &m,
                   const ContractionIndex &n, const ContractionIndex &k) {
  for (const ContractionIndex &index : batch) {
    form.batch.push_back(index.size);
    for (int tensor : {Lhs, Rhs, Result})
      form.strides[tensor].push_back(index.strides[tensor].value_or(0));
  }
  auto append = [&](Tensor tensor, const ContractionIndex &rows, const ContractionIndex &columns) {
    auto [row, column] = matrixStrides(rows, columns, tensor);
    form.strides[tensor].insert(form.strides[tensor].end(), {row, column});
  };
  append(Lhs, m, k);
  append(Rhs, k, n);
  append(Result, m, n);
}

/// Picks the matrix dimensions of merged groups, n as the result's innermost.
std::optional<MatmulForm> pick(IndicesByRole groups, bool swapped, size_t maxRank) {
  ContractionIndex one;
  MatmulForm form;
  form.swapped = swapped;
  ContractionIndex k = groups.k.empty() ? one : groups.k.front();
  auto n = groups.n.empty() ? std::optional(one) : takeMatrixDimension(groups.n, Result);
  if (!n)
    return std::nullopt;
  bool kIsUnit = k.size == 1 || k.strides[Lhs] == 1;
  auto m = groups.m.empty()
               ? std::optional(one)
               : takeMatrixDimension(groups.m, kIsUnit ? std::nullopt : std::optional(Lhs));
  if (!m || !isPlain(*m, k, Lhs) || !isPlain(k, *n, Rhs) || !isPlain(*m, *n, Result))
    return std::nullopt;
  Indices batch = std::move(groups.batch);
  batch.insert(batch.end(), groups.m.begin(), groups.m.end());
  batch.insert(batch.end(), groups.n.begin(), groups.n.end());
  if (batch.size() + 2 > maxRank)
    return std::nullopt;
  form.m = m->size;
  form.n = n->size;
  form.k = k.size;
  appendStrides(form, batch, *m, *n, k);
  return form;
}

} // namespace

std::vector<ContractionIndex> mergeNeighbours(std::vector<ContractionIndex> indices, Tensor order) {
  std::stable_sort(indices.begin(), indices.end(),
                   [&](const ContractionIndex &a, const ContractionIndex &b) {
                     return *a.strides[order] > *b.strides[order];
                   });
  std::vector<ContractionIndex> merged;
  for (const ContractionIndex &index : indices) {
    if (merged.empty() || !merges(merged.back(), index)) {
      merged.push_back(index);
      continue;
    }
    ContractionIndex joined = index;
    joined.size *= merged.back().size;
    merged.back() = joined;
  }
  return merged;
}

std::optional<MatmulForm> formMatmul(const std::vector<ContractionIndex> &indices,
                                     size_t maxRank) {
  std::optional<IndicesByRole> groups = group(indices);
  if (!groups)
    return std::nullopt;
  groups->batch = mergeNeighbours(std::move(groups->batch), Result);
  groups->m = mergeNeighbours(std::move(groups->m), Result);
  groups->n = mergeNeighbours(std::move(groups->n), Result);
  groups->k = mergeNeighbours(std::move(groups->k), Lhs);
  if (groups->k.size() > 1)
    return std::nullopt;
  bool swap = !hasUnitStride(groups->n, Result) && !groups->m.empty() &&
              (groups->n.empty() || hasUnitStride(groups->m, Result));
  if (!groups->n.empty() && !swap && !hasUnitStride(groups->n, Result))
    return std::nullopt;
  if (swap)
    swapOperands(*groups);
  return pick(std::move(*groups), swap, maxRank);
}

} // namespace dtc::kernels
