#include "Kernels.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::interpreter {

namespace {
/// A table [outer, rows, inner] seen along one axis.
struct Along {
  Along(ArrayRef<int64_t> shape, int64_t axis)
      : outer(productOf(shape.take_front(axis))), rows(shape[axis]),
        inner(productOf(shape.drop_front(axis + 1))) {}
  int64_t outer, rows, inner;
};
} // namespace

/// Calls `visit(table position, position among the slices)` for every element
/// whose index is in the table.
template <typename Visit>
static void forEachIndexed(const Along &table, ArrayRef<int64_t> indices, Visit visit) {
  int64_t count = indices.size();
  for (int64_t o = 0; o < table.outer; ++o)
    for (int64_t j = 0; j < count; ++j) {
      if (indices[j] < 0 || indices[j] >= table.rows)
        continue;
      int64_t from = (o * table.rows + indices[j]) * table.inner;
      int64_t to = (o * count + j) * table.inner;
      for (int64_t k = 0; k < table.inner; ++k)
        visit(from + k, to + k);
    }
}

static Tensor evaluateKernel(GatherOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  Along table(operands[0]->shape(), op.getAxis());
  auto gather = [&](auto &out, const auto &in) {
    forEachIndexed(table, operands[1]->ints, [&](int64_t t, int64_t s) { out[s] = in[t]; });
  };
  onElements(gather, result, *operands[0]);
  return result;
}

/// The rows that indices name by their buckets, or -1. What no kernel would sort so is left out.
static std::vector<int64_t> indicesOf(const Tensor &buckets, int64_t count, int64_t rows,
                                      int64_t bucketRows) {
  const int64_t all = llvm::divideCeil(rows, bucketRows), width = buckets.shape().back(),
                part = width - all - 1;
  std::vector<int64_t> indices(count, -1);
  for (int64_t p = 0; p < buckets.shape().front(); ++p) {
    const int64_t *begins = buckets.ints.data() + p * width, *entries = begins + all + 1;
    for (int64_t bucket = 0; bucket < all; ++bucket)
      for (int64_t i = std::max<int64_t>(begins[bucket], 0); i < std::min(begins[bucket + 1], part);
           ++i)
        if (int64_t place = p * part + entries[i] % part; entries[i] >= 0 && place < count)
          indices[place] = bucket * bucketRows + entries[i] / part;
  }
  return indices;
}

static Tensor evaluateKernel(BucketIndicesOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  ArrayRef<int64_t> indices = operands[0]->ints;
  const int64_t buckets = op.getBuckets(), part = op.getPart(), width = buckets + 1 + part,
                bucketRows = op.getBucketRows();
  for (int64_t p = 0; p < result.shape().front(); ++p) {
    int64_t *begins = result.ints.data() + p * width, *entries = begins + buckets + 1, found = 0;
    ArrayRef<int64_t> own = indices.drop_front(p * part);
    own = own.take_front(std::min<int64_t>(part, own.size()));
    std::fill_n(entries, part, -1);
    for (int64_t bucket = 0; bucket < buckets; ++bucket) {
      begins[bucket] = found;
      const int64_t first = bucket * bucketRows,
                    end = std::min<int64_t>(first + bucketRows, op.getRows());
      for (auto [place, index] : llvm::enumerate(own))
        if (index >= first && index < end)
          entries[found++] = (index - first) * part + static_cast<int64_t>(place);
    }
    begins[buckets] = found;
  }
  return result;
}

static Tensor evaluateKernel(ScatterAddOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  Along table(result.shape(), op.getAxis());
  std::vector<int64_t> indices(operands[0]->ints.begin(), operands[0]->ints.end());
  if (op.getBuckets())
    indices = indicesOf(*operands[2], indices.size(), table.rows, *op.getBucketRows());
  auto scatter = [&](auto &out, const auto &in) {
    forEachIndexed(table, indices,
                   [&](int64_t t, int64_t s) { out[t] = combine(ReduceKind::Sum, out[t], in[s]); });
  };
  onElements(scatter, result, *operands[1]);
  return result;
}

static Tensor evaluateKernel(PickOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  int64_t size = operands[0]->shape().back();
  auto pick = [&](auto &out, const auto &in) {
    for (size_t i = 0; i < out.size(); ++i)
      if (int64_t at = operands[1]->ints[i]; at >= 0 && at < size)
        out[i] = in[i * size + at];
  };
  onElements(pick, result, *operands[0]);
  return result;
}

static Tensor evaluateKernel(TopKOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  const int64_t size = operands[0]->shape().back(), k = result.shape().back();
  std::vector<int64_t> order(size);
  for (int64_t row = 0; row < result.size() / k; ++row) {
    auto key = [&](int64_t i) {
      double value = operands[0]->floats[row * size + i];
      return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
    };
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order, [&](int64_t a, int64_t b) {
      return op.getSmallest() ? key(a) < key(b) : key(a) > key(b);
    });
    std::copy_n(order.begin(), k, result.ints.begin() + row * k);
  }
  return result;
}

void addIndexKernels(KernelTable &table) {
  table.add<GatherOp>(evaluateKernel);
  table.add<ScatterAddOp>(evaluateKernel);
  table.add<BucketIndicesOp>(evaluateKernel);
  table.add<PickOp>(evaluateKernel);
  table.add<TopKOp>(evaluateKernel);
}

} // namespace dtc::interpreter
