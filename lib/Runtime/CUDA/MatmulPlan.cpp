#include "MatmulPlan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace dtc::rt::cuda {
namespace {

/// A dimension of the product: its size, and its strides in a, b and c.
struct Dim {
  int64_t size = 1;
  std::array<int64_t, 3> strides = {};
};

enum Tensor : size_t { A, B, C };

struct Dims3 {
  Dim m, n, k;
  std::vector<Dim> batch; ///< outermost first; none of size 1
};

/// Whether stepping through `outer` goes on where stepping through `inner` ends.
bool continues(const Dim &outer, const Dim &inner) {
  for (size_t i : {A, B, C})
    if (outer.strides[i] != inner.strides[i] * inner.size)
      return false;
  return true;
}

std::optional<Dims3> dimsOf(const MatmulCall &call) {
  const StridedTensor *tensors[] = {&call.a, &call.b, &call.c};
  size_t rank = call.c.shape.size();
  for (const StridedTensor *tensor : tensors)
    if (rank < 2 || tensor->shape.size() != rank || tensor->strides.size() != rank)
      return std::nullopt;
  Dims3 dims;
  auto strides = [&](size_t a, size_t b, size_t c) {
    std::array<int64_t, 3> result = {};
    for (auto [tensor, dim] : {std::pair(A, a), {B, b}, {C, c}})
      if (dim < rank && tensors[tensor]->shape[dim] != 1)
        result[tensor] = tensors[tensor]->strides[dim];
    return result;
  };
  size_t row = rank - 2, column = rank - 1, none = rank;
  dims.m = {call.c.shape[row], strides(row, none, row)};
  dims.n = {call.c.shape[column], strides(none, column, column)};
  dims.k = {call.a.shape[column], strides(column, row, none)};
  if (call.a.shape[row] != dims.m.size || call.b.shape[column] != dims.n.size ||
      call.b.shape[row] != dims.k.size)
    return std::nullopt;
  for (size_t i = 0; i < row; ++i) {
    for (const StridedTensor *tensor : {&call.a, &call.b})
      if (tensor->shape[i] != call.c.shape[i] && tensor->shape[i] != 1)
        return std::nullopt;
    if (call.c.shape[i] != 1)
      dims.batch.push_back({call.c.shape[i], strides(i, i, i)});
  }
  return dims;
}

/// Joins neighbours of the batch, and the innermost with m where b is repeated along it.
void joinBatch(Dims3 &dims) {
  for (size_t i = dims.batch.size(); i-- > 1;) {
    Dim &outer = dims.batch[i - 1], &inner = dims.batch[i];
    if (!continues(outer, inner))
      continue;
    inner.size *= outer.size;
    dims.batch.erase(dims.batch.begin() + static_cast<int64_t>(i) - 1);
  }
  while (!dims.batch.empty() && dims.batch.back().strides[B] == 0) {
    if (dims.m.size == 1)
      dims.m = dims.batch.back();
    else if (continues(dims.batch.back(), dims.m))
      dims.m.size *= dims.batch.back().size;
    else
      return;
    dims.batch.pop_back();
  }
}

/// The matrix as column-major memory, plain or transposed; nothing where neither is.
std::optional<MatrixPlan> columnMajor(const Dim &row, const Dim &column, Tensor tensor) {
  for (bool transposed : {false, true}) {
    const Dim &fast = transposed ? column : row, &slow = transposed ? row : column;
    if (fast.size != 1 && fast.strides[tensor] != 1)
      continue;
    int64_t ld = slow.size == 1 ? fast.size : slow.strides[tensor];
    if (ld < fast.size)
      continue;
    return MatrixPlan{static_cast<uint64_t>(fast.size), static_cast<uint64_t>(slow.size), ld, 0,
                      transposed};
  }
  return std::nullopt;
}

/// Offsets of all combinations of the dims' indices.
std::vector<std::array<int64_t, 3>> offsetsOf(const std::vector<Dim> &dims) {
  std::vector<std::array<int64_t, 3>> offsets = {{0, 0, 0}};
  for (const Dim &dim : dims) {
    std::vector<std::array<int64_t, 3>> next;
    for (const auto &offset : offsets)
      for (int64_t i = 0; i < dim.size; ++i)
        next.push_back({offset[A] + i * dim.strides[A], offset[B] + i * dim.strides[B],
                        offset[C] + i * dim.strides[C]});
    offsets = std::move(next);
  }
  return offsets;
}

/// The largest dimension becomes the batch of each call; the others are left to several calls.
void divideBatch(std::vector<Dim> batch, MatmulPlan &plan) {
  constexpr int64_t kMostBatch = std::numeric_limits<int32_t>::max();
  auto largest = std::ranges::max_element(batch, {}, &Dim::size);
  if (largest != batch.end() && largest->size <= kMostBatch) {
    plan.batchCount = static_cast<int32_t>(largest->size);
    plan.first.batchStride = largest->strides[plan.isSwapped ? B : A];
    plan.second.batchStride = largest->strides[plan.isSwapped ? A : B];
    plan.result.batchStride = largest->strides[C];
    batch.erase(largest);
  }
  plan.calls = offsetsOf(batch);
}

} // namespace

Result<MatmulPlan> planMatmul(const MatmulCall &call) {
  std::optional<Dims3> dims = dimsOf(call);
  if (!dims)
    return refused("the shapes of the product don't go together");
  if (dims->k.size < 1)
    return refused("the product has nothing to add up");
  MatmulPlan plan;
  for (int64_t size : call.c.shape)
    if (size == 0)
      return plan;
  joinBatch(*dims);
  // A row-major c is asked for as its transpose, whose rows are the columns of c.
  plan.isSwapped = dims->n.size != 1 && dims->n.strides[C] == 1;
  plan.isSwapped |= dims->m.size == 1 || dims->m.strides[C] != 1;
  const Dim &rows = plan.isSwapped ? dims->n : dims->m;
  const Dim &columns = plan.isSwapped ? dims->m : dims->n;
  auto first = columnMajor(rows, dims->k, plan.isSwapped ? B : A);
  auto second = columnMajor(dims->k, columns, plan.isSwapped ? A : B);
  auto result = columnMajor(rows, columns, C);
  if (!first || !second || !result || result->isTransposed)
    return refused("the strides of the product are none that cuBLASLt takes");
  plan.first = *first;
  plan.second = *second;
  plan.result = *result;
  divideBatch(std::move(dims->batch), plan);
  return plan;
}

} // namespace dtc::rt::cuda
