#include "dtc/Kernels/ElementEvaluator.h"

#include "PhiloxWord.h"

#include "dtc/Dialect/Graph/RandomOps.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace dtc::kernels {

using graph::ReduceKind;
using graph::shapeOf;

static std::vector<AffineExpr> keyOf(const Index &index) { return {index.begin(), index.end()}; }

ElementEvaluator::ElementEvaluator(const BodyInfo &info, OpBuilder &builder, ElementHost &host)
    : math(builder.getContext()), info(info), builder(builder),
      loc(info.body.getParentOp()->getLoc()), host(host) {}

void ElementEvaluator::fail(Operation *op, const Twine &message) {
  if (!failed)
    op->emitError() << message;
  failed = true;
}

Value ElementEvaluator::emit(Value tensor, const Index &index) {
  if (failed)
    return poison(computeType(getElementTypeOrSelf(tensor)));
  int at = math.depth(index);
  Key key{tensor, keyOf(index)};
  for (const Scope &open : scopes) {
    auto known = open.values.find(key);
    if (known != open.values.end())
      return known->second;
  }
  OuterScopes outer(*this, at);
  Value result;
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    result = host.load(argument.getArgNumber(), math.linearize(index, shapeOf(argument)));
  else
    result = emitOf(tensor.getDefiningOp(), index);
  scope().values[key] = result;
  return result;
}

void ElementEvaluator::remember(Value tensor, const Index &index, Value value) {
  position();
  scope().values[{tensor, keyOf(index)}] =
      rounded(builder, loc, value, getElementTypeOrSelf(tensor), host.narrowing());
}

Value ElementEvaluator::emitStored(Value result, const Index &index) {
  if (auto truncation = result.getDefiningOp<arith::TruncFOp>())
    if (computeType(getElementTypeOrSelf(truncation.getIn())) ==
        computeType(getElementTypeOrSelf(result)))
      result = truncation.getIn();
  // Nothing else in the kernel finds the wide value.
  llvm::SaveAndRestore keptWide(unrounded, result.hasOneUse() ? result.getDefiningOp() : nullptr);
  return emit(result, index);
}

/// Whether what an op gives of half precision values is one of these, or a constant.
static bool givesItsOperands(Operation *op) {
  return !graph::isElementwise(op)
             ? !isa<graph::SumOp, graph::ReduceOp, graph::IotaOp, graph::CumSumOp>(op)
             : isa<arith::NegFOp, math::AbsFOp, arith::SelectOp, arith::MaximumFOp,
                   arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op);
}

Value ElementEvaluator::inItsType(Operation *op, Value value) {
  Type element = getElementTypeOrSelf(op->getResult(0));
  if (op == unrounded || computeType(element) == element || givesItsOperands(op))
    return value;
  position();
  return rounded(builder, loc, value, element, host.narrowing());
}

std::optional<std::pair<Value, Index>> ElementEvaluator::viewSource(Operation *op,
                                                                    const Index &index) {
  Index source;
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    for (int64_t dim : broadcast.getDims())
      source.push_back(index[dim]);
  } else if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    source.resize(index.size());
    for (auto [i, from] : llvm::enumerate(transpose.getPerm()))
      source[from] = index[i];
  } else if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
    AffineExpr linear = math.linearize(index, shapeOf(reshape.getResult()));
    source = math.delinearize(linear, shapeOf(reshape.getInput()));
  } else if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    for (auto [i, expr] : llvm::enumerate(index))
      source.push_back(math.add(math.multiply(expr, slice.getStrides()[i]), slice.getOffsets()[i]));
  } else {
    return std::nullopt;
  }
  return std::pair(op->getOperand(0), source);
}

std::optional<ElementPlace> ElementEvaluator::placeOf(Value value, const Index &index) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return ElementPlace{argument.getArgNumber(), math.linearize(index, shapeOf(argument))};
  auto source = viewSource(value.getDefiningOp(), index);
  if (!source)
    return std::nullopt;
  return placeOf(source->first, source->second);
}

Value ElementEvaluator::emitOf(Operation *op, const Index &index) {
  if (Value kept = host.kept(op, index))
    return isa<graph::ReduceOp>(op) ? inItsType(op, kept) : kept;
  Value value = inItsType(op, compute(op, index));
  host.computed(op, index, value);
  return value;
}

Value ElementEvaluator::compute(Operation *op, const Index &index) {
  if (auto source = viewSource(op, index))
    return emit(source->first, source->second);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::ConstantOp op) { return constantElement(op, index); })
      .Case([&](graph::IotaOp op) { return iota(op, index); })
      .Case([&](graph::PadOp op) { return padded(op, index); })
      .Case([&](graph::ConcatOp op) { return concatenated(op, index); })
      .Case([&](graph::GatherOp op) { return gathered(op, index); })
      .Case([&](graph::PickOp op) { return picked(op, index); })
      .Case([&](graph::ReduceOp op) { return host.reduce(op, index); })
      .Case([&](graph::MaxPoolOp op) { return pooled(op, index); })
      .Case([&](graph::SumOp op) { return summed(op, index); })
      .Case([&](graph::PhiloxOp op) {
        Value key = emit(op.getKeys(), index), at = emit(op.getIndex(), index);
        position();
        return philoxWord(builder, loc, key, at, op.getNumber());
      })
      .Default([&](Operation *op) { return elementwise(op, index); });
}

Value ElementEvaluator::constantElement(arith::ConstantOp op, const Index &index) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements) {
    fail(op, "unsupported constant in a kernel");
    return poison(computeType(getElementTypeOrSelf(op.getType())));
  }
  Type element = elements.getElementType();
  auto scalar = [&](Attribute value) -> TypedAttr {
    Type type = computeType(element);
    if (auto number = dyn_cast<FloatAttr>(value); number && type != element)
      return builder.getFloatAttr(type, number.getValueAsDouble());
    return cast<TypedAttr>(value);
  };
  if (elements.isSplat())
    return constant(scalar(elements.getSplatValue<Attribute>()));
  AffineExpr linear = math.linearize(index, elements.getType().getShape());
  if (auto at = dyn_cast<AffineConstantExpr>(linear))
    return constant(scalar(elements.getValues<Attribute>()[at.getValue()]));
  return host.loadConstant(elements, linear);
}

Value ElementEvaluator::iota(graph::IotaOp op, const Index &index) {
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  Value number = lower(index[op.getDim()]);
  position();
  if (isa<FloatType>(scalar))
    return arith::SIToFPOp::create(builder, loc, scalar, number);
  if (scalar.getIntOrFloatBitWidth() < 64)
    return arith::TruncIOp::create(builder, loc, scalar, number);
  return number;
}

Value ElementEvaluator::summed(graph::SumOp op, const Index &index) {
  Value sum;
  for (Value input : op.getInputs()) {
    Value term = emit(input, index);
    sum = sum ? combine(ReduceKind::Sum, sum, term) : term;
  }
  return sum;
}

// Elementwise ops.

Value ElementEvaluator::elementwise(Operation *op, const Index &index) {
  Type element = getElementTypeOrSelf(op->getResult(0)), scalar = computeType(element);
  if (!graph::isElementwise(op) || op->getNumResults() != 1) {
    fail(op, "cannot be part of a kernel");
    return poison(scalar);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(emit(operand, index));
  position();
  bool halves = computeType(element) != element;
  for (Value operand : op->getOperands()) {
    Type type = getElementTypeOrSelf(operand);
    halves |= computeType(type) != type;
  }
  if (halves && isa<arith::BitcastOp>(op)) {
    fail(op, "cannot reinterpret half precision bits in a kernel");
    return poison(scalar);
  }
  if (isa<arith::ExtFOp, arith::TruncFOp>(op) && operands[0].getType() == scalar)
    return operands[0];
  if (Value value = host.approximate(op, operands))
    return value;
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(scalar);
  state.addAttributes(op->getAttrs());
  state.attributes.erase(graph::GraphDialect::kId);
  state.attributes.erase(graph::GraphDialect::kBackward);
  return builder.create(state)->getResult(0);
}

// Reductions.

Value ElementEvaluator::identityOf(ReduceKind kind, Type type) {
  bool isFloat = isa<FloatType>(type);
  unsigned bits = type.getIntOrFloatBitWidth();
  double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
  case ReduceKind::Sum:
    return constantOf(type, 0);
  case ReduceKind::Prod:
    return constantOf(type, 1);
  case ReduceKind::Max:
    if (isFloat)
      return constantOf(type, -infinity);
    return constant(
        builder.getIntegerAttr(type, bits == 1 ? APInt(1, 0) : APInt::getSignedMinValue(bits)));
  case ReduceKind::Min:
    if (isFloat)
      return constantOf(type, infinity);
    return constant(
        builder.getIntegerAttr(type, bits == 1 ? APInt(1, 1) : APInt::getSignedMaxValue(bits)));
  }
  llvm_unreachable("all kinds handled");
}

Value ElementEvaluator::combine(ReduceKind kind, Value a, Value b) {
  position();
  bool isFloat = isa<FloatType>(a.getType()), isBool = a.getType().isInteger(1);
  switch (kind) {
  case ReduceKind::Sum:
    if (isFloat)
      return arith::AddFOp::create(builder, loc, a, b);
    return arith::AddIOp::create(builder, loc, a, b);
  case ReduceKind::Prod:
    if (isFloat)
      return arith::MulFOp::create(builder, loc, a, b);
    return arith::MulIOp::create(builder, loc, a, b);
  case ReduceKind::Max:
    if (isFloat)
      return arith::MaximumFOp::create(builder, loc, a, b);
    if (isBool)
      return arith::OrIOp::create(builder, loc, a, b);
    return arith::MaxSIOp::create(builder, loc, a, b);
  case ReduceKind::Min:
    if (isFloat)
      return arith::MinimumFOp::create(builder, loc, a, b);
    if (isBool)
      return arith::AndIOp::create(builder, loc, a, b);
    return arith::MinSIOp::create(builder, loc, a, b);
  }
  llvm_unreachable("all kinds handled");
}

Index ElementEvaluator::reductionSource(graph::ReduceOp op, const Index &index,
                                        AffineExpr element) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  SmallVector<int64_t> sizes;
  for (int64_t dim : op.getDims())
    sizes.push_back(shape[dim]);
  Index inner = math.delinearize(element, sizes), source(shape.size());
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    source[dim] = inner[i];
  unsigned next = 0;
  for (AffineExpr &expr : source)
    if (!expr)
      expr = index[next++];
  return source;
}

Value ElementEvaluator::writtenOut(graph::ReduceOp op, const Index &index) {
  int64_t results = elementsOf(op.getResult()), count = elementsOf(op.getInput());
  count = results ? count / results : 0;
  Value result = identityOf(op.getKind(), computeType(getElementTypeOrSelf(op.getType())));
  for (int64_t i = 0; i < count; ++i) {
    Value term = emit(op.getInput(), reductionSource(op, index, math.constant(i)));
    result = i == 0 ? term : combine(op.getKind(), result, term);
  }
  return result;
}

} // namespace dtc::kernels
