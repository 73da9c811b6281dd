#include "dtc/Raise/Emit.h"

using namespace mlir;

namespace dtc::raise {

Value splat(Emitter &emit, RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute attr = isa<FloatType>(element)
                       ? Attribute(emit.getFloatAttr(element, value))
                       : emit.getIntegerAttr(element, wrapTo(element, static_cast<int64_t>(value)));
  return arith::ConstantOp::create(emit, DenseElementsAttr::get(type, attr));
}

Value splatLike(Emitter &emit, Value like, double value) {
  return splat(emit, tensorType(like), value);
}

Value reshape(Emitter &emit, Value value, ArrayRef<int64_t> shape) {
  auto type = tensorType(value);
  if (type.getShape() == shape)
    return value;
  return emit.createOrFold<graph::ReshapeOp>(type.clone(shape), value);
}

Value transpose(Emitter &emit, Value value, ArrayRef<int64_t> perm) {
  Shape shape;
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i) {
    shape.push_back(tensorType(value).getDimSize(perm[i]));
    identity &= perm[i] == static_cast<int64_t>(i);
  }
  if (identity)
    return value;
  return graph::TransposeOp::create(emit, tensorType(value).clone(shape), value, perm);
}

Value broadcastAlong(Emitter &emit, Value value, ArrayRef<int64_t> shape,
                     ArrayRef<int64_t> dims) {
  auto type = tensorType(value).clone(shape);
  if (value.getType() == type)
    return value;
  return emit.createOrFold<graph::BroadcastOp>(type, value, dims);
}

Value broadcastTo(Emitter &emit, Value value, ArrayRef<int64_t> shape) {
  auto from = tensorType(value).getShape();
  if (from == shape)
    return value;
  // Only dimensions that really repeat are dropped: a batch of size 1 stays in place.
  const size_t lead = shape.size() - from.size();
  Shape kept, dims;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] == shape[lead + i]) {
      kept.push_back(from[i]);
      dims.push_back(lead + i);
    }
  return broadcastAlong(emit, reshape(emit, value, kept), shape, dims);
}

Value sliceDim(Emitter &emit, Value value, int64_t dim, int64_t offset, int64_t size,
               int64_t stride) {
  Shape shape(tensorType(value).getShape()), offsets(shape.size(), 0), strides(shape.size(), 1);
  if (shape[dim] == size && offset == 0)
    return value;
  shape[dim] = size;
  offsets[dim] = offset;
  strides[dim] = stride;
  return graph::SliceOp::create(emit, tensorType(value).clone(shape), value, offsets, strides);
}

Value gather(Emitter &emit, Value table, Value indices, int64_t axis, IntegerAttr paddingRow) {
  auto rows = tensorType(table).getShape();
  Shape shape(rows.take_front(axis));
  shape.append(Shape(tensorType(indices).getShape()));
  shape.append(rows.begin() + axis + 1, rows.end());
  return graph::GatherOp::create(emit, tensorType(table).clone(shape), table, indices,
                                 emit.getI64IntegerAttr(axis), paddingRow);
}

Value pickEach(Emitter &emit, Value rows, Value indices) {
  const Shape wanted(tensorType(indices).getShape());
  Shape repeated = wanted, dims;
  repeated.push_back(tensorType(rows).getShape().back());
  for (size_t i = 0; i < repeated.size(); ++i)
    if (i + 2 != repeated.size())
      dims.push_back(i);
  rows = wanted.back() == 1 ? reshape(emit, rows, repeated)
                            : broadcastAlong(emit, rows, repeated, dims);
  return graph::PickOp::create(emit, RankedTensorType::get(wanted, elementOf(rows)), rows,
                               indices);
}

Value reduce(Emitter &emit, graph::ReduceKind kind, Value value, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return value;
  Shape shape;
  for (int64_t i = 0; i < tensorType(value).getRank(); ++i)
    if (!llvm::is_contained(dims, i))
      shape.push_back(tensorType(value).getDimSize(i));
  return graph::ReduceOp::create(emit, tensorType(value).clone(shape), kind, value, dims);
}

Value divideByCount(Emitter &emit, Value sum, int64_t count) {
  const Type element = elementOf(sum);
  const bool half = element.isF16() || element.isBF16();
  Value wide = castTo(emit, sum, half ? Type(emit.getF32Type()) : element);
  Value mean = arith::DivFOp::create(emit, wide, splatLike(emit, wide, double(count)));
  return castTo(emit, mean, element);
}

Value pad(Emitter &emit, Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
          double fill) {
  Shape shape(tensorType(value).getShape());
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] += low[i] + high[i];
  if (ArrayRef(shape) == tensorType(value).getShape())
    return value;
  return graph::PadOp::create(emit, tensorType(value).clone(shape), value, low,
                              Shape(shape.size(), 0), llvm::APFloat(fill));
}

Value contract(Emitter &emit, Value lhs, ArrayRef<int64_t> lhsIndices, Value rhs,
               ArrayRef<int64_t> rhsIndices, ArrayRef<int64_t> resultIndices) {
  auto sizeOf = [&](int64_t index) {
    for (size_t i = 0; i < lhsIndices.size(); ++i)
      if (lhsIndices[i] == index)
        return tensorType(lhs).getDimSize(i);
    for (size_t i = 0; i < rhsIndices.size(); ++i)
      if (rhsIndices[i] == index)
        return tensorType(rhs).getDimSize(i);
    llvm_unreachable("an index of the result is in an operand");
  };
  Shape shape = llvm::map_to_vector(resultIndices, sizeOf);
  return graph::ContractOp::create(emit, tensorType(lhs).clone(shape), lhs, rhs, lhsIndices,
                                   rhsIndices, resultIndices);
}

Value matmul(Emitter &emit, Value lhs, Value rhs) {
  const int64_t lhsRank = tensorType(lhs).getRank(), rhsRank = tensorType(rhs).getRank();
  const int64_t lhsLead = std::max<int64_t>(lhsRank - 2, 0);
  const int64_t rhsLead = std::max<int64_t>(rhsRank - 2, 0);
  const int64_t lead = std::max(lhsLead, rhsLead);
  // Leading dimensions are indices 0..lead-1, then m, n, and k.
  const int64_t m = lead, n = lhsRank > 1 ? m + 1 : m, k = rhsRank > 1 ? n + 1 : n;
  Shape resultIndices;
  for (int64_t i = 0; i < k; ++i)
    resultIndices.push_back(i);
  // A leading dimension of size 1 that the other operand repeats is dropped.
  auto operand = [&](Value &value, int64_t own, Value other, int64_t others, Shape &indices) {
    Shape kept;
    auto shape = tensorType(value).getShape();
    for (int64_t i = 0; i < own; ++i) {
      const int64_t index = lead - own + i, at = index - (lead - others);
      if (shape[i] == 1 && at >= 0 && tensorType(other).getDimSize(at) != 1)
        continue;
      kept.push_back(shape[i]);
      indices.push_back(index);
    }
    kept.append(shape.begin() + own, shape.end());
    value = reshape(emit, value, kept);
  };
  Shape lhsIndices, rhsIndices;
  Value left = lhs, right = rhs;
  operand(left, lhsLead, rhs, rhsLead, lhsIndices);
  operand(right, rhsLead, lhs, lhsLead, rhsIndices);
  if (lhsRank > 1)
    lhsIndices.push_back(m);
  lhsIndices.push_back(k);
  rhsIndices.push_back(k);
  if (rhsRank > 1)
    rhsIndices.push_back(n);
  return contract(emit, left, lhsIndices, right, rhsIndices, resultIndices);
}

Value castTo(Emitter &emit, Value value, Type to) {
  Type from = elementOf(value);
  if (from == to)
    return value;
  auto type = tensorType(value).clone(to);
  if (to.isInteger(1)) {
    Value zero = splatLike(emit, value, 0);
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(emit, arith::CmpFPredicate::UNE, value, zero);
    return arith::CmpIOp::create(emit, arith::CmpIPredicate::ne, value, zero);
  }
  const bool bit = from.isInteger(1);
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    if (from.getIntOrFloatBitWidth() == to.getIntOrFloatBitWidth()) // f16 <-> bf16
      return castTo(emit, castTo(emit, value, emit.getF32Type()), to);
    if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(emit, type, value);
    return arith::TruncFOp::create(emit, type, value);
  }
  if (isa<FloatType>(from))
    return arith::FPToSIOp::create(emit, type, value);
  if (isa<FloatType>(to))
    return bit ? arith::UIToFPOp::create(emit, type, value).getResult()
               : arith::SIToFPOp::create(emit, type, value).getResult();
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(emit, type, value);
  return bit ? arith::ExtUIOp::create(emit, type, value).getResult()
             : arith::ExtSIOp::create(emit, type, value).getResult();
}

bool dependsOnParameter(Value value) {
  llvm::SmallPtrSet<Operation *, 32> seen;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      auto role = func ? graph::getArgRole(func, argument.getArgNumber()) : graph::RoleAttr();
      if (!role || role.getKind() == graph::RoleKind::Parameter)
        return true;
      continue;
    }
    Operation *op = next.getDefiningOp();
    // No gradient passes a comparison.
    if (isa<arith::CmpIOp, arith::CmpFOp>(op) || !seen.insert(op).second)
      continue;
    open.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

} // namespace dtc::raise
