// Pieces of tensors: padded, concatenated, and looked up at run-time indices.
#include "dtc/Kernels/ElementEvaluator.h"

using namespace mlir;

namespace dtc::kernels {

using graph::ReduceKind;
using graph::shapeOf;

static std::vector<AffineExpr> keyOf(const Index &index) { return {index.begin(), index.end()}; }

Value ElementEvaluator::insideOf(AffineExpr at, int64_t low, int64_t high) {
  Range range = math.range(at);
  if (range.low >= low && range.high <= high)
    return constant(builder.getBoolAttr(true));
  if (range.high <= low || range.low >= high)
    return constant(builder.getBoolAttr(false));
  OuterScopes outer(*this, math.depth(at));
  Value shifted = lower(math.add(at, -low)), size = constantInt(high - low);
  position();
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, shifted, size);
}

AffineExpr ElementEvaluator::clamped(AffineExpr at, int64_t low, int64_t high) {
  Range range = math.range(at);
  if (range.low >= low && range.high <= high)
    return at;
  OuterScopes outer(*this, math.depth(at));
  Key key{Value(), {at, math.constant(low), math.constant(high)}};
  if (AffineExpr known = scope().dynamicIndices[key])
    return known;
  Value value = lower(at), least = constantInt(low), most = constantInt(high - 1);
  position();
  value = arith::MaxSIOp::create(builder, loc, value, least);
  value = arith::MinSIOp::create(builder, loc, value, most);
  return scope().dynamicIndices[key] = variableFor(value, {low, high});
}

static std::optional<bool> known(Value condition) {
  APInt value;
  if (matchPattern(condition, m_ConstantInt(&value)))
    return value.isOne();
  return std::nullopt;
}

Value ElementEvaluator::select(Value condition, Value inside, Value outside) {
  position();
  return arith::SelectOp::create(builder, loc, condition, inside, outside);
}

Value ElementEvaluator::padded(graph::PadOp op, const Index &index) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  Value fill = constantOf(scalar, op.getValue().convertToDouble());
  Index source;
  SmallVector<Value> conditions;
  for (auto [i, expr] : llvm::enumerate(index)) {
    int64_t low = op.getLow()[i], step = op.getInterior()[i] + 1;
    int64_t last = low + (shape[i] - 1) * step + 1; // one past the last element's place
    if (shape[i] == 0)
      return fill;
    if (step == 1) {
      host.noteBoundary(expr, low);
      host.noteBoundary(expr, last);
    }
    conditions.push_back(insideOf(expr, low, last));
    AffineExpr at = clamped(expr, low, last);
    AffineExpr distance = math.add(at, -low);
    if (step != 1)
      conditions.push_back(insideOf(math.modulo(distance, step), 0, 1));
    source.push_back(math.floorDivide(distance, step));
  }
  Value all;
  for (Value condition : conditions) {
    if (known(condition) == true)
      continue;
    if (known(condition) == false)
      return fill;
    position();
    all = all ? arith::AndIOp::create(builder, loc, all, condition).getResult() : condition;
  }
  Value inside = emit(op.getInput(), source);
  return all ? select(all, inside, fill) : inside;
}

Value ElementEvaluator::concatenated(graph::ConcatOp op, const Index &index) {
  int64_t dim = op.getDim(), low = 0;
  AffineExpr at = index[dim];
  SmallVector<std::pair<Value, Index>> parts;
  SmallVector<Value> conditions;
  for (Value input : op.getInputs()) {
    int64_t high = low + shapeOf(input)[dim];
    if (low != 0)
      host.noteBoundary(at, low);
    Value condition = insideOf(at, low, high);
    if (known(condition) != false && high > low) {
      Index source = index;
      source[dim] = math.add(clamped(at, low, high), -low);
      parts.push_back({input, source});
      conditions.push_back(condition);
    }
    low = high;
  }
  if (parts.size() > 1 && math.depth(at) < depth()) {
    SmallVector<ElementPlace> places;
    for (auto &[input, source] : parts)
      if (std::optional<ElementPlace> place = placeOf(input, source))
        places.push_back(*place);
    if (places.size() == parts.size())
      if (Value value = host.loadOneOf(places, conditions))
        return value;
  }
  Value result;
  for (auto [part, condition] : llvm::zip(parts, conditions)) {
    Value value = emit(part.first, part.second);
    result = result ? select(condition, value, result) : value;
  }
  return result;
}

std::pair<AffineExpr, Value> ElementEvaluator::checkedIndex(Value tensor, const Index &index,
                                                            int64_t size) {
  OuterScopes outer(*this, math.depth(index));
  Key key{tensor, keyOf(index)};
  Value value = emit(tensor, index), bound = constantInt(size), zero = constantInt(0);
  position();
  Type i64 = builder.getI64Type();
  if (value.getType() != i64)
    value = arith::ExtSIOp::create(builder, loc, i64, value);
  Value valid = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, value, bound);
  value = arith::SelectOp::create(builder, loc, valid, value, zero);
  AffineExpr &expr = scope().dynamicIndices[key];
  if (!expr)
    expr = variableFor(value, {0, size});
  return {expr, valid};
}

Value ElementEvaluator::gathered(graph::GatherOp op, const Index &index) {
  int64_t axis = op.getAxis(), count = shapeOf(op.getIndices()).size();
  Index where(index.begin() + axis, index.begin() + axis + count);
  auto [at, valid] = checkedIndex(op.getIndices(), where, shapeOf(op.getTable())[axis]);
  Index source(index.begin(), index.begin() + axis);
  source.push_back(at);
  source.append(index.begin() + axis + count, index.end());
  Value value = emit(op.getTable(), source);
  return select(valid, value, constantOf(value.getType(), 0));
}

Value ElementEvaluator::picked(graph::PickOp op, const Index &index) {
  auto [at, valid] = checkedIndex(op.getIndices(), index, shapeOf(op.getInput()).back());
  Index source = index;
  source.push_back(at);
  Value value = emit(op.getInput(), source);
  return select(valid, value, constantOf(value.getType(), 0));
}

Value ElementEvaluator::pooled(graph::MaxPoolOp op, const Index &index) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput()), kernel = op.getKernel();
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  Value lowest = identityOf(ReduceKind::Max, scalar), result = lowest;
  for (int64_t tap = 0, taps = IndexMath::numElements(kernel); tap < taps; ++tap) {
    Index source(index.begin(), index.begin() + 2);
    Value all;
    auto offsets = IndexMath::tapOffsets(tap, kernel, op.getDilations(), op.getPadLow());
    for (auto [d, offset] : llvm::enumerate(offsets)) {
      AffineExpr at = math.add(math.multiply(index[d + 2], op.getStrides()[d]), offset);
      Value condition = insideOf(at, 0, shape[d + 2]);
      source.push_back(clamped(at, 0, shape[d + 2]));
      if (known(condition) == true)
        continue;
      position();
      all = all ? arith::AndIOp::create(builder, loc, all, condition).getResult() : condition;
    }
    Value value = emit(op.getInput(), source);
    if (all)
      value = select(all, value, lowest);
    result = combine(ReduceKind::Max, result, value);
  }
  return result;
}

} // namespace dtc::kernels
