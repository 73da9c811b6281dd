#include "dtc/Import/Build/Reduction.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Unsupported.h"

#include <limits>

using namespace mlir;

namespace dtc::import {

/// A reduction of a constant over `axes`, dimensions kept with size 1; null
/// where it is not evaluated.
static Host reduceHost(const HostTensor &host, StringRef op, ArrayRef<int64_t> axes) {
  Shape shape = host.shape, region = host.shape;
  for (int64_t axis : axes)
    shape[axis] = 1;
  if (host.size() == 0 || host.size() > (1 << 22) || !fitsConstant(host.element, shape))
    return {};
  auto result = std::make_shared<HostTensor>(host.element, shape, shape);
  const Shape steps = host.strides(), to = result->strides();
  SmallVector<int64_t> counts(product(shape), 0);
  // Integers wrap as two's complement does.
  auto add = [](auto a, auto b) { return a + b; };
  auto multiply = [](auto a, auto b) { return a * b; };
  auto wrapping = [](auto apply, auto a, auto b) {
    if constexpr (std::is_floating_point_v<decltype(a)>)
      return apply(a, b);
    else
      return int64_t(apply(uint64_t(a), uint64_t(b)));
  };
  auto combine = [&](auto &into, auto value, bool first) {
    if (first)
      into = value;
    else if (op == "ReduceSum" || op == "ReduceMean")
      into = wrapping(add, into, value);
    else if (op == "ReduceProd")
      into = wrapping(multiply, into, value);
    else if (op == "ReduceMax")
      into = std::max(into, value);
    else
      into = std::min(into, value);
  };
  forEachIndex(region, [&](ArrayRef<int64_t> index) {
    const int64_t from = dot(index, steps), at = dot(index, to);
    const bool first = counts[at]++ == 0;
    if (host.isFloat())
      combine(result->floats[at], host.floats[from], first);
    else
      combine(result->ints[at], host.ints[from], first);
  });
  for (double &value : result->floats)
    value = roundTo(host.element, op == "ReduceMean" ? value / counts[0] : value);
  for (int64_t &value : result->ints)
    value = wrapTo(host.element, value);
  result->compress();
  return result;
}

/// log(sum(exp(x))), with the largest element taken out so that nothing overflows.
static Value logSumExp(Emitter &emit, Value x, ArrayRef<int64_t> axes) {
  graph::TensorBuilder b(emit, emit.getLoc());
  Value most = b.reduce(graph::ReduceKind::Max, x, axes);
  Value finite = b.compare(arith::CmpFPredicate::OLT, b.unary<math::AbsFOp>(most),
                           std::numeric_limits<double>::infinity());
  most = b.selectOr(finite, most, 0.0);
  Value shifted = b.sub(x, b.spread(most, tensorType(x).getShape(), axes));
  Value sum = b.sum(b.unary<math::ExpOp>(shifted), axes);
  return b.add(b.unary<math::LogOp>(sum), most);
}

static Value emitReduction(Emitter &emit, StringRef op, Value x, ArrayRef<int64_t> axes,
                           int64_t count) {
  using K = graph::ReduceKind;
  if (op == "ReduceMax")
    return reduce(emit, K::Max, x, axes);
  if (op == "ReduceMin")
    return reduce(emit, K::Min, x, axes);
  if (op == "ReduceProd")
    return reduce(emit, K::Prod, x, axes);
  if (op == "ReduceL2" || op == "ReduceSumSquare")
    x = arith::MulFOp::create(emit, x, x);
  if (op == "ReduceL1")
    x = math::AbsFOp::create(emit, x);
  if (op == "ReduceLogSumExp")
    return logSumExp(emit, x, axes);
  Value sum = reduce(emit, K::Sum, x, axes);
  if (op == "ReduceMean")
    return divideByCount(emit, sum, count);
  if (op == "ReduceL2")
    return math::SqrtOp::create(emit, sum);
  if (op == "ReduceLogSum")
    return math::LogOp::create(emit, sum);
  return sum;
}

FailureOr<Tensor> reduceTensor(Conversion &node, StringRef op, const Tensor &tensor,
                               ArrayRef<int64_t> axes, bool keepDims) {
  const bool isFloat = isa<FloatType>(tensor.element());
  Shape kept, dropped;
  int64_t count = 1;
  for (int64_t i = 0; i < tensor.rank(); ++i) {
    const bool reduced = llvm::is_contained(axes, i);
    kept.push_back(reduced ? 1 : tensor.shape()[i]);
    if (reduced)
      count *= tensor.shape()[i];
    else
      dropped.push_back(tensor.shape()[i]);
  }
  const Shape &shape = keepDims ? kept : dropped;
  const bool plain = op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin" ||
                     op == "ReduceProd" || op == "ReduceMean";
  if (tensor.host && plain && (isFloat || op != "ReduceMean"))
    if (Host constant = reduceHost(*tensor.host, op, axes))
      return reshapeTensor(node, Tensor(constant), shape);
  if (!isFloat && (!plain || op == "ReduceMean"))
    return LogicalResult(unsupported(node.error()) << "is not supported on " << tensor.element());
  if (llvm::is_contained(tensor.shape(), 0))
    return LogicalResult(node.error() << "reduces a tensor without elements");
  Value x = node.value(tensor);
  if (tensor.element().isInteger(1)) { // of one bit, the true value is the negative one
    Value wide = castTo(node.emit, x, node.emit.getI32Type());
    wide = emitReduction(node.emit, op, wide, axes, count);
    return Tensor(reshape(node.emit, castTo(node.emit, wide, tensor.element()), shape));
  }
  return Tensor(reshape(node.emit, emitReduction(node.emit, op, x, axes, count), shape));
}

Value softmax(Emitter &emit, Value x, int64_t axis) {
  return graph::SoftmaxOp::create(emit, x.getType(), x, axis);
}

// x - max - log(sum(exp(x - max)))
Value logSoftmax(Emitter &emit, Value x, int64_t axis) {
  const Shape shape(tensorType(x).getShape());
  Shape others;
  for (int64_t i = 0; i < int64_t(shape.size()); ++i)
    if (i != axis)
      others.push_back(i);
  auto spread = [&](Value v) { return broadcastAlong(emit, v, shape, others); };
  Value shifted =
      arith::SubFOp::create(emit, x, spread(reduce(emit, graph::ReduceKind::Max, x, {axis})));
  Value sum = reduce(emit, graph::ReduceKind::Sum, math::ExpOp::create(emit, shifted), {axis});
  return arith::SubFOp::create(emit, shifted, spread(math::LogOp::create(emit, sum)));
}

} // namespace dtc::import
