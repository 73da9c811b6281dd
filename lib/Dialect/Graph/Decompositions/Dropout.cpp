#include "Dropout.h"

#include <cmath>

using namespace mlir;

namespace dtc::graph {

/// The row-major index of an element in its sample.
static Value indexInSample(TensorBuilder &b, DropoutOp op, RankedTensorType type,
                           llvm::function_ref<Value(int64_t)> indexAlong) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  Value index;
  int64_t stride = 1;
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
    if (dim == int64_t(op.getBatch()) || shape[dim] == 1)
      continue;
    Value term = indexAlong(dim);
    if (stride != 1)
      term = arith::MulIOp::create(b.builder, b.loc, term, b.integer(type, stride));
    index = index ? arith::AddIOp::create(b.builder, b.loc, index, term).getResult() : term;
    stride *= shape[dim];
  }
  return index ? index : b.integer(type, 0);
}

namespace {
/// Of each sample: the least word that keeps an element, and by what such elements are multiplied.
struct SampleLimits {
  Value least, factor;
};
} // namespace

static SampleLimits limitsOf(TensorBuilder &b, DropoutOp op, Value keys, Type element) {
  const double ratio = op.getRatio().convertToDouble();
  Type words = keys.getType(), factors = cast<RankedTensorType>(words).clone(element);
  Value keepsAll = b.compare(arith::CmpIPredicate::eq, keys, DropoutOp::kKeepsAll);
  Value least = b.integer(words, std::llround(std::ldexp(ratio, 32)));
  Value factor = b.constant(factors, ratio < 1 ? 1 / (1 - ratio) : 0);
  return {b.select(keepsAll, b.integer(words, 0), least),
          b.select(keepsAll, b.constant(factors, 1), factor)};
}

Value dropoutOf(TensorBuilder &b, DropoutOp op, Value input, Value keys,
                llvm::function_ref<Value(int64_t dim)> indexAlong) {
  auto type = cast<RankedTensorType>(input.getType());
  RankedTensorType words = type.clone(b.builder.getI64Type());
  Value index = indexInSample(b, op, words, indexAlong);
  Value key = b.broadcast(keys, {int64_t(op.getBatch())}, type.getShape());
  Value drawn = PhiloxOp::create(b.builder, b.loc, words, key, index, op.getNumber());
  const SampleLimits limits = limitsOf(b, op, keys, getElementTypeOrSelf(b.widen(input)));
  auto ofSample = [&](Value number) {
    return b.broadcast(number, {int64_t(op.getBatch())}, type.getShape());
  };
  Value kept = b.compare(arith::CmpIPredicate::sge, drawn, ofSample(limits.least));
  Value scaled = b.mul(b.widen(input), ofSample(limits.factor));
  return b.convert(b.selectOr(kept, scaled, 0.0), type.getElementType());
}

FailureOr<SmallVector<Value>> DropoutOp::decompose(OpBuilder &builder) {
  if (!getKeys())
    return emitOpError("has no keys to draw with");
  TensorBuilder b(builder, getLoc());
  auto indexAlong = [&](int64_t dim) {
    return b.iota(builder.getI64Type(), shapeOf(getResult()), dim);
  };
  return SmallVector<Value>{dropoutOf(b, *this, getInput(), getKeys(), indexAlong)};
}

} // namespace dtc::graph
