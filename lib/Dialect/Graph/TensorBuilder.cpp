#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

Type statisticsType(Type elementType) {
  return elementType.isF64() ? elementType : Float32Type::get(elementType.getContext());
}

SmallVector<int64_t> otherDims(int64_t rank, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> others;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(dims, dim))
      others.push_back(dim);
  return others;
}

static Value splat(TensorBuilder &b, RankedTensorType type, TypedAttr element) {
  return arith::ConstantOp::create(b.builder, b.loc, type, SplatElementsAttr::get(type, element));
}

Value TensorBuilder::constant(Type type, double value) {
  auto tensor = cast<RankedTensorType>(type);
  return splat(*this, tensor, builder.getFloatAttr(tensor.getElementType(), value));
}

Value TensorBuilder::integer(Type type, int64_t value) {
  auto tensor = cast<RankedTensorType>(type);
  return splat(*this, tensor, builder.getIntegerAttr(tensor.getElementType(), value));
}

Value TensorBuilder::constantLike(Value like, double value) {
  return constant(like.getType(), value);
}

Value TensorBuilder::add(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
Value TensorBuilder::sub(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
Value TensorBuilder::mul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
Value TensorBuilder::div(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
Value TensorBuilder::negate(Value a) { return arith::NegFOp::create(builder, loc, a); }
Value TensorBuilder::maximum(Value a, Value b) {
  return arith::MaximumFOp::create(builder, loc, a, b);
}
Value TensorBuilder::minimum(Value a, Value b) {
  return arith::MinimumFOp::create(builder, loc, a, b);
}

Value TensorBuilder::scale(Value a, double factor) {
  return factor == 1.0 ? a : mul(a, constantLike(a, factor));
}

Value TensorBuilder::offset(Value a, double term) {
  return term == 0.0 ? a : add(a, constantLike(a, term));
}

Value TensorBuilder::reciprocal(Value a) { return div(constantLike(a, 1.0), a); }

Value TensorBuilder::compare(arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, predicate, a, b);
}

Value TensorBuilder::compare(arith::CmpFPredicate predicate, Value a, double b) {
  return compare(predicate, a, constantLike(a, b));
}

Value TensorBuilder::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, predicate, a, b);
}

Value TensorBuilder::compare(arith::CmpIPredicate predicate, Value a, int64_t b) {
  return compare(predicate, a, integer(a.getType(), b));
}

Value TensorBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value TensorBuilder::selectOr(Value condition, Value a, double otherwise) {
  return select(condition, a, constantLike(a, otherwise));
}

Value TensorBuilder::selectOr(Value condition, double value, Value otherwise) {
  return select(condition, constantLike(otherwise, value), otherwise);
}

Value TensorBuilder::convert(Value a, Type elementType) {
  Type from = tensorType(a).getElementType();
  if (from == elementType)
    return a;
  Type to = tensorType(a).clone(elementType);
  if (from.isInteger(1))
    return arith::UIToFPOp::create(builder, loc, to, a);
  if (isa<IntegerType>(from))
    return arith::SIToFPOp::create(builder, loc, to, a);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = elementType.getIntOrFloatBitWidth();
  if (fromBits < toBits)
    return arith::ExtFOp::create(builder, loc, to, a);
  if (fromBits > toBits)
    return arith::TruncFOp::create(builder, loc, to, a);
  // Equally wide but different (bf16 and f16): by way of f32.
  return convert(convert(a, builder.getF32Type()), elementType);
}

Value TensorBuilder::widen(Value a) {
  return convert(a, statisticsType(tensorType(a).getElementType()));
}

Value TensorBuilder::reduce(ReduceKind kind, Value a, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return a;
  SmallVector<int64_t> shape;
  for (int64_t dim : otherDims(tensorType(a).getRank(), dims))
    shape.push_back(tensorType(a).getDimSize(dim));
  Type type = RankedTensorType::get(shape, tensorType(a).getElementType());
  return ReduceOp::create(builder, loc, type, kind, a, dims);
}

Value TensorBuilder::broadcast(Value a, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
  if (dims.size() == shape.size())
    return a;
  Type type = RankedTensorType::get(shape, tensorType(a).getElementType());
  return BroadcastOp::create(builder, loc, type, a, dims);
}

Value TensorBuilder::spread(Value a, ArrayRef<int64_t> shape, ArrayRef<int64_t> fresh) {
  return broadcast(a, otherDims(shape.size(), fresh), shape);
}

Value TensorBuilder::reshape(Value a, ArrayRef<int64_t> shape) {
  if (tensorType(a).getShape() == shape)
    return a;
  Type type = RankedTensorType::get(shape, tensorType(a).getElementType());
  return ReshapeOp::create(builder, loc, type, a);
}

Value TensorBuilder::transpose(Value a, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> shape;
  bool identity = true;
  for (auto [i, from] : llvm::enumerate(perm)) {
    shape.push_back(tensorType(a).getDimSize(from));
    identity &= static_cast<int64_t>(i) == from;
  }
  if (identity)
    return a;
  Type type = RankedTensorType::get(shape, tensorType(a).getElementType());
  return TransposeOp::create(builder, loc, type, a, perm);
}

Value TensorBuilder::iota(Type elementType, ArrayRef<int64_t> shape, int64_t dim) {
  return IotaOp::create(builder, loc, RankedTensorType::get(shape, elementType), dim);
}

Value TensorBuilder::contract(Value lhs, ArrayRef<int64_t> lhsIndices, Value rhs,
                              ArrayRef<int64_t> rhsIndices, ArrayRef<int64_t> resultIndices,
                              Type elementType) {
  SmallVector<int64_t> shape;
  for (int64_t index : resultIndices) {
    const auto *inLhs = llvm::find(lhsIndices, index);
    if (inLhs != lhsIndices.end())
      shape.push_back(tensorType(lhs).getDimSize(inLhs - lhsIndices.begin()));
    else
      shape.push_back(
          tensorType(rhs).getDimSize(llvm::find(rhsIndices, index) - rhsIndices.begin()));
  }
  return ContractOp::create(builder, loc, RankedTensorType::get(shape, elementType), lhs, rhs,
                            lhsIndices, rhsIndices, resultIndices);
}

} // namespace dtc::graph
