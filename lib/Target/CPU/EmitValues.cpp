// The scalar of each op at an index.
#include "Emitter.h"
#include "MathApproximation.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

using graph::ReduceKind;
using graph::shapeOf;

/// Reductions of at most this many elements are written out where they are needed.
static constexpr int64_t kUnrolledReduction = 16;

static std::vector<AffineExpr> keyOf(const Index &index) { return {index.begin(), index.end()}; }

Value Emitter::emit(Value tensor, const Index &index) {
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
    result = load(argument.getArgNumber(), index);
  else
    result = compute(tensor.getDefiningOp(), index);
  scope().values[key] = result;
  return result;
}

Value Emitter::compute(Operation *op, const Index &index) {
  unsigned number = info.indexOf.lookup(op);
  for (const Stash &stash : plan.stashes)
    if (stash.op == number)
      return stashed(stash, op, index);
  return computed(op, index);
}

std::optional<std::pair<Value, Index>> Emitter::viewSource(Operation *op, const Index &index) {
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
      source.push_back(
          math.add(math.multiply(expr, slice.getStrides()[i]), slice.getOffsets()[i]));
  } else {
    return std::nullopt;
  }
  return std::pair(op->getOperand(0), source);
}

std::optional<Emitter::Place> Emitter::placeOf(Value value, const Index &index) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return Place{argument.getArgNumber(),
                 math.linearize(index, shapeOf(argument))};
  auto source = viewSource(value.getDefiningOp(), index);
  if (!source)
    return std::nullopt;
  return placeOf(source->first, source->second);
}

Value Emitter::computed(Operation *op, const Index &index) {
  if (auto source = viewSource(op, index))
    return emit(source->first, source->second);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::ConstantOp op) { return constantElement(op, index); })
      .Case([&](graph::IotaOp op) { return iota(op, index); })
      .Case([&](graph::PadOp op) { return padded(op, index); })
      .Case([&](graph::ConcatOp op) { return concatenated(op, index); })
      .Case([&](graph::GatherOp op) { return gathered(op, index); })
      .Case([&](graph::PickOp op) { return picked(op, index); })
      .Case([&](graph::ReduceOp op) { return reduced(op, index); })
      .Case([&](graph::MaxPoolOp op) { return pooled(op, index); })
      .Case([&](graph::SumOp op) { return summed(op, index); })
      .Default([&](Operation *op) { return elementwise(op, index); });
}

Value Emitter::stashed(const Stash &stash, Operation *op, const Index &index) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  AffineExpr element = columnNumber;
  bool ours = static_cast<bool>(element);
  if (ours) {
    int64_t columns = type.getNumElements() / plan.rows;
    AffineExpr linear = math.add(math.multiply(rowVariable, columns), element);
    ours = math.linearize(index, type.getShape()) == linear;
  }
  if (!ours)
    return computed(op, index);
  Type scalar = computeType(type.getElementType());
  if (stashedOps.count(stash.op))
    return loadScratch(stash.scratchOffset, element, scalar);
  Value value = computed(op, index);
  if (storesStashes) {
    storeScratch(stash.scratchOffset, element, value);
    pendingStashes.insert(stash.op);
  }
  return value;
}

Value Emitter::constantElement(arith::ConstantOp op, const Index &index) {
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
  return tableElement(elements, linear);
}

Value Emitter::tableElement(DenseElementsAttr elements, AffineExpr linear) {
  // A table in the code object, in the compute type; booleans are bytes.
  Type element = elements.getElementType();
  bool boolean = element.isInteger(1);
  Type scalar = boolean ? builder.getI8Type() : computeType(element);
  SmallVector<Attribute> values;
  for (Attribute value : elements.getValues<Attribute>()) {
    if (auto number = dyn_cast<FloatAttr>(value))
      value = builder.getFloatAttr(scalar, number.getValueAsDouble());
    else if (boolean)
      value = builder.getI8IntegerAttr(cast<IntegerAttr>(value).getValue().getZExtValue());
    values.push_back(value);
  }
  auto type = RankedTensorType::get({elements.getNumElements()}, scalar);
  auto function = cast<func::FuncOp>(scopes[0].block->getParentOp());
  std::string name = (function.getName() + ".table" + Twine(numTables++)).str();
  Value base;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    auto array = LLVM::LLVMArrayType::get(scalar, elements.getNumElements());
    LLVM::GlobalOp::create(builder, loc, array, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           DenseElementsAttr::get(type, values));
  }
  {
    OuterScopes outer(*this, 0);
    position();
    base = LLVM::AddressOfOp::create(builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
                                     name);
  }
  Value from = address(base, linear, scalar);
  position();
  Value loaded = LLVM::LoadOp::create(builder, loc, scalar, from);
  if (!boolean)
    return loaded;
  Value zero = arith::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(0));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, loaded, zero);
}

Value Emitter::iota(graph::IotaOp op, const Index &index) {
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  Value number = lower(index[op.getDim()]);
  position();
  if (isa<FloatType>(scalar))
    return arith::SIToFPOp::create(builder, loc, scalar, number);
  if (scalar.getIntOrFloatBitWidth() < 64)
    return arith::TruncIOp::create(builder, loc, scalar, number);
  return number;
}

Value Emitter::summed(graph::SumOp op, const Index &index) {
  Value sum;
  for (Value input : op.getInputs()) {
    Value term = emit(input, index);
    sum = sum ? combine(ReduceKind::Sum, sum, term, /*reorder=*/false) : term;
  }
  return sum;
}

// Elementwise ops.

static void allowContraction(Operation *op) {
  auto contract = arith::FastMathFlagsAttr::get(op->getContext(), arith::FastMathFlags::contract);
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op))
    op->setAttr("fastmath", contract);
}

Value Emitter::elementwise(Operation *op, const Index &index) {
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
    return rounded(builder, loc, operands[0], element);
  if (Value value = approximate(builder, op, operands))
    return value;
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(scalar);
  state.addAttributes(op->getAttrs());
  state.attributes.erase(graph::GraphDialect::kId);
  state.attributes.erase(graph::GraphDialect::kBackward);
  Operation *clone = builder.create(state);
  allowContraction(clone);
  Value value = clone->getResult(0);
  return isa<arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp>(op)
             ? rounded(builder, loc, value, element)
             : value;
}

// Reductions.

Value Emitter::identityOf(ReduceKind kind, Type type) {
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
    return constant(builder.getIntegerAttr(type, bits == 1 ? APInt(1, 0)
                                                           : APInt::getSignedMinValue(bits)));
  case ReduceKind::Min:
    if (isFloat)
      return constantOf(type, infinity);
    return constant(builder.getIntegerAttr(type, bits == 1 ? APInt(1, 1)
                                                           : APInt::getSignedMaxValue(bits)));
  }
  llvm_unreachable("all kinds handled");
}

Value Emitter::combine(ReduceKind kind, Value a, Value b, bool reorder) {
  position();
  bool isFloat = isa<FloatType>(a.getType()), isBool = a.getType().isInteger(1);
  auto flags = arith::FastMathFlags::contract;
  if (reorder)
    flags = flags | arith::FastMathFlags::reassoc;
  switch (kind) {
  case ReduceKind::Sum:
    if (isFloat)
      return arith::AddFOp::create(builder, loc, a, b, flags);
    return arith::AddIOp::create(builder, loc, a, b);
  case ReduceKind::Prod:
    if (isFloat)
      return arith::MulFOp::create(builder, loc, a, b, flags);
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

Index Emitter::reductionSource(graph::ReduceOp op, const Index &index, AffineExpr element) {
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

Value Emitter::reduced(graph::ReduceOp op, const Index &index) {
  auto accumulator = accumulatorOf.find(op);
  if (accumulator != accumulatorOf.end()) {
    if (math.linearize(index, shapeOf(op.getResult())) != writtenElement) {
      fail(op, "sums over rows can only be followed by elementwise ops in a kernel");
      return poison(computeType(getElementTypeOrSelf(op.getType())));
    }
    return loadScratch(accumulator->second, math.add(writtenColumn, math.multiply(blockLow, -1)),
                       computeType(getElementTypeOrSelf(op.getType())));
  }
  int64_t count = IndexMath::numElements(shapeOf(op.getInput()));
  int64_t results = IndexMath::numElements(shapeOf(op.getResult()));
  count = results ? count / results : 0;
  if (plan.kind != KernelKind::Pointwise || count > kUnrolledReduction)
    return reduceTogether({op}, index)[0];
  Value result = identityOf(op.getKind(), computeType(getElementTypeOrSelf(op.getType())));
  for (int64_t i = 0; i < count; ++i) {
    Value term = emit(op.getInput(), reductionSource(op, index, math.constant(i)));
    result = i == 0 ? term : combine(op.getKind(), result, term, /*reorder=*/true);
  }
  return result;
}

Emitter::Values Emitter::reduceTogether(ArrayRef<graph::ReduceOp> ops, const Index &index) {
  Values initial;
  for (graph::ReduceOp op : ops)
    initial.push_back(identityOf(op.getKind(), computeType(getElementTypeOrSelf(op.getType()))));
  LoopId id{LoopId::Reduction, info.indexOf.lookup(ops.front())};
  AffineExpr outerNumber = columnNumber;
  Values results = nest(id, initial, [&](AffineExpr element, Accumulators accumulators) {
    columnNumber = element;
    Values next;
    for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
      graph::ReduceOp op = ops[i];
      Value term = emit(op.getInput(), reductionSource(op, index, element));
      next.push_back(combine(op.getKind(), accumulator, term, /*reorder=*/true));
    }
    return next;
  });
  columnNumber = outerNumber;
  return results;
}

} // namespace dtc::cpu
