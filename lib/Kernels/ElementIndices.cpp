// Scopes of an evaluator, and the numbers that index expressions stand for.
#include "dtc/Kernels/ElementEvaluator.h"

using namespace mlir;

namespace dtc::kernels {

bool ElementEvaluator::KeyLess::operator()(const Key &a, const Key &b) const {
  const void *first = a.first.getAsOpaquePointer(), *second = b.first.getAsOpaquePointer();
  if (first != second)
    return first < second;
  return std::lexicographical_compare(
      a.second.begin(), a.second.end(), b.second.begin(), b.second.end(),
      [](AffineExpr x, AffineExpr y) { return x.getAsOpaquePointer() < y.getAsOpaquePointer(); });
}

// Scopes.

void ElementEvaluator::pushScope(Block *block) {
  scopes.emplace_back();
  scopes.back().block = block;
}

void ElementEvaluator::popScope() { scopes.pop_back(); }

void ElementEvaluator::position() {
  if (scope().before)
    builder.setInsertionPoint(scope().before);
  else
    builder.setInsertionPointToEnd(scope().block);
}

ElementEvaluator::OuterScopes::OuterScopes(ElementEvaluator &evaluator, int depth)
    : evaluator(evaluator) {
  for (int i = depth + 1; i < static_cast<int>(evaluator.scopes.size()); ++i)
    inner.push_back(std::move(evaluator.scopes[i]));
  evaluator.scopes.resize(evaluator.scopes.size() - inner.size());
}

ElementEvaluator::OuterScopes::~OuterScopes() {
  for (Scope &saved : inner)
    evaluator.scopes.push_back(std::move(saved));
}

// Numbers.

Value ElementEvaluator::constant(TypedAttr value) {
  auto known = scopes[0].constants.find(value);
  if (known != scopes[0].constants.end())
    return known->second;
  OuterScopes outer(*this, 0);
  position();
  Value result = arith::ConstantOp::create(builder, loc, value);
  scopes[0].constants[value] = result;
  return result;
}

Value ElementEvaluator::constantInt(int64_t value) {
  return constant(builder.getI64IntegerAttr(value));
}

Value ElementEvaluator::constantOf(Type type, double value) {
  if (isa<FloatType>(type))
    return constant(builder.getFloatAttr(type, value));
  return constant(builder.getIntegerAttr(type, static_cast<int64_t>(value)));
}

AffineExpr ElementEvaluator::variableFor(Value value, Range range) {
  AffineExpr variable = math.newVariable(range, depth());
  variableValues.push_back(value);
  return variable;
}

Value ElementEvaluator::lower(AffineExpr expr) {
  if (auto value = dyn_cast<AffineConstantExpr>(expr))
    return constantInt(value.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return variableValues[dim.getPosition()];
  int at = math.depth(expr);
  if (Value known = scopes[at].integers.lookup(expr))
    return known;
  if (math.hasDivision(expr))
    host.noteDivision(expr);
  OuterScopes outer(*this, at);
  Value result = lowerBinary(cast<AffineBinaryOpExpr>(expr));
  scope().integers[expr] = result;
  return result;
}

Value ElementEvaluator::lowerBinary(AffineBinaryOpExpr expr) {
  auto noWrap = arith::IntegerOverflowFlags::nsw;
  if (expr.getKind() == AffineExprKind::Add) {
    auto [outer, inner] = math.separate(expr, depth());
    Value a, b;
    if (outer && inner) {
      a = lower(outer);
      b = lower(inner);
    } else {
      a = lower(expr.getLHS());
      b = lower(expr.getRHS());
    }
    position();
    return arith::AddIOp::create(builder, loc, a, b, noWrap);
  }
  int64_t factor = cast<AffineConstantExpr>(expr.getRHS()).getValue();
  if (expr.getKind() == AffineExprKind::Mul) {
    Value a = lower(expr.getLHS()), b = constantInt(factor);
    position();
    return arith::MulIOp::create(builder, loc, a, b, noWrap);
  }
  // Negative dividends are shifted up by a multiple of the divisor.
  Range range = math.range(expr.getLHS());
  int64_t shift = range.low < 0 ? (-range.low + factor - 1) / factor : 0;
  Value a = lower(math.add(expr.getLHS(), shift * factor)), b = constantInt(factor);
  Value down = constantInt(shift);
  position();
  if (expr.getKind() == AffineExprKind::Mod)
    return arith::RemUIOp::create(builder, loc, a, b);
  Value quotient = arith::DivUIOp::create(builder, loc, a, b);
  return shift ? arith::SubIOp::create(builder, loc, quotient, down).getResult() : quotient;
}

} // namespace dtc::kernels
