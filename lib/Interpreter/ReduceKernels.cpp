#include "Kernels.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::interpreter {

double combine(ReduceKind kind, double a, double b) {
  switch (kind) {
  case ReduceKind::Sum:
    return a + b;
  case ReduceKind::Prod:
    return a * b;
  case ReduceKind::Max:
    return b > a || std::isnan(b) ? b : a;
  case ReduceKind::Min:
    return b < a || std::isnan(b) ? b : a;
  }
  return a;
}

int64_t combine(ReduceKind kind, int64_t a, int64_t b) {
  // Unsigned, as signed overflow is undefined.
  switch (kind) {
  case ReduceKind::Sum:
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  case ReduceKind::Prod:
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  case ReduceKind::Max:
    return std::max(a, b);
  case ReduceKind::Min:
    return std::min(a, b);
  }
  return a;
}

static double neutralFloat(ReduceKind kind) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
  case ReduceKind::Sum:
    return 0;
  case ReduceKind::Prod:
    return 1;
  case ReduceKind::Max:
    return -kInfinity;
  case ReduceKind::Min:
    return kInfinity;
  }
  return 0;
}

static int64_t neutralInt(ReduceKind kind, unsigned width) {
  bool boolean = width == 1; // kept as 0 and 1
  switch (kind) {
  case ReduceKind::Sum:
    return 0;
  case ReduceKind::Prod:
    return 1;
  case ReduceKind::Max:
    return boolean ? 0 : llvm::minIntN(width);
  case ReduceKind::Min:
    return boolean ? 1 : llvm::maxIntN(width);
  }
  return 0;
}

void fillNeutral(ReduceKind kind, Tensor &tensor) {
  if (tensor.isFloat())
    llvm::fill(tensor.floats, neutralFloat(kind));
  else
    llvm::fill(tensor.ints, neutralInt(kind, tensor.type.getElementTypeBitWidth()));
}

static Tensor evaluateKernel(ReduceOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  const Tensor &input = *operands[0];
  fillNeutral(op.getKind(), result);
  Strides own = stridesOf(result.shape()), strides;
  size_t kept = 0;
  for (int64_t dim = 0; dim < input.rank(); ++dim)
    strides.push_back(llvm::is_contained(op.getDims(), dim) ? 0 : own[kept++]);
  auto reduce = [&](auto &out, const auto &in) {
    forEachIndex(input.shape(), strides, stridesOf(input.shape()), [&](int64_t o, int64_t i) {
      out[o] = combine(op.getKind(), out[o], in[i]);
    });
  };
  onElements(reduce, result, input);
  return result;
}

static Tensor evaluateKernel(CumSumOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  const Tensor &input = *operands[0];
  int64_t size = result.shape()[op.getDim()];
  int64_t step = productOf(result.shape().drop_front(op.getDim() + 1));
  auto accumulate = [&](auto &out, const auto &in) {
    for (int64_t start = 0, end = out.size(); start < end; ++start) {
      if (start / step % size != 0)
        continue;
      auto total = static_cast<std::decay_t<decltype(in[0])>>(0);
      for (int64_t k = 0; k < size; ++k) {
        int64_t at = start + (op.getReverse() ? size - 1 - k : k) * step;
        auto next = combine(ReduceKind::Sum, total, in[at]);
        out[at] = op.getExclusive() ? total : next;
        total = next;
      }
    }
  };
  onElements(accumulate, result, input);
  return result;
}

static Tensor evaluateKernel(SumOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  auto add = [&](auto &out, const auto &in) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = combine(ReduceKind::Sum, out[i], in[i]);
  };
  for (const Tensor *input : operands)
    onElements(add, result, *input);
  return result;
}

namespace {
/// The indices of a contraction by where they occur, so that it becomes a
/// batch of matrix products [rows, inner] x [inner, columns].
struct Product {
  SmallVector<int64_t> batch, rows, columns, inner;
};
} // namespace

static Product classify(ContractOp op) {
  Product product;
  for (int64_t index = 0, end = op.getIndexSizes().size(); index < end; ++index) {
    bool lhs = llvm::is_contained(op.getLhsIndices(), index);
    bool rhs = llvm::is_contained(op.getRhsIndices(), index);
    if (!llvm::is_contained(op.getResultIndices(), index))
      product.inner.push_back(index);
    else if (lhs && rhs)
      product.batch.push_back(index);
    else
      (lhs ? product.rows : product.columns).push_back(index);
  }
  return product;
}

/// Visits `groups` of indices in order, with the positions in a packed tensor
/// and in one whose dimensions are `indices`.
template <typename Visit>
static void forEachPacked(ContractOp op, std::initializer_list<ArrayRef<int64_t>> groups,
                          ArrayRef<int64_t> indices, ArrayRef<int64_t> shape, Visit visit) {
  SmallVector<int64_t> sizes = op.getIndexSizes();
  Strides own = stridesOf(shape), strides, packedShape;
  for (ArrayRef<int64_t> group : groups)
    for (int64_t index : group) {
      packedShape.push_back(sizes[index]);
      strides.push_back(own[llvm::find(indices, index) - indices.begin()]);
    }
  forEachIndex(packedShape, stridesOf(packedShape), strides, visit);
}

/// `c` [rows, columns] += `a` [rows, inner] x `b` [inner, columns].
template <typename T>
static void multiply(const T *a, const T *b, T *c, int64_t rows, int64_t inner, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k) {
      T factor = a[i * inner + k];
      for (int64_t j = 0; j < columns; ++j)
        c[i * columns + j] += factor * b[k * columns + j];
    }
}

template <typename T>
static void contract(ContractOp op, const std::vector<T> &lhs, const std::vector<T> &rhs,
                     std::vector<T> &out) {
  Product product = classify(op);
  SmallVector<int64_t> sizes = op.getIndexSizes();
  auto extent = [&](ArrayRef<int64_t> group) {
    int64_t size = 1;
    for (int64_t index : group)
      size *= sizes[index];
    return size;
  };
  int64_t rows = extent(product.rows), columns = extent(product.columns);
  int64_t inner = extent(product.inner);
  std::vector<T> a(lhs.size()), b(rhs.size()), c(out.size());
  forEachPacked(op, {product.batch, product.rows, product.inner}, op.getLhsIndices(),
                shapeOf(op.getLhs()), [&](int64_t to, int64_t from) { a[to] = lhs[from]; });
  forEachPacked(op, {product.batch, product.inner, product.columns}, op.getRhsIndices(),
                shapeOf(op.getRhs()), [&](int64_t to, int64_t from) { b[to] = rhs[from]; });
  for (int64_t i = 0, batches = extent(product.batch); i < batches; ++i)
    multiply(a.data() + i * rows * inner, b.data() + i * inner * columns,
             c.data() + i * rows * columns, rows, inner, columns);
  forEachPacked(op, {product.batch, product.rows, product.columns}, op.getResultIndices(),
                shapeOf(op.getResult()), [&](int64_t from, int64_t to) { out[to] = c[from]; });
}

static Tensor evaluateKernel(ContractOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  if (result.isFloat()) {
    contract(op, operands[0]->floats, operands[1]->floats, result.floats);
    return result;
  }
  // Unsigned, as signed overflow is undefined.
  std::vector<uint64_t> lhs(operands[0]->ints.begin(), operands[0]->ints.end());
  std::vector<uint64_t> rhs(operands[1]->ints.begin(), operands[1]->ints.end());
  std::vector<uint64_t> out(result.ints.size());
  contract(op, lhs, rhs, out);
  result.ints.assign(out.begin(), out.end());
  return result;
}

void addReduceKernels(KernelTable &table) {
  table.add<ReduceOp>(evaluateKernel);
  table.add<CumSumOp>(evaluateKernel);
  table.add<SumOp>(evaluateKernel);
  table.add<ContractOp>(evaluateKernel);
}

} // namespace dtc::interpreter
