#include "Emitter.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

/// More pieces of a loop than this only bloat the code.
static constexpr size_t kMostCuts = 8;

bool Emitter::KeyLess::operator()(const Key &a, const Key &b) const {
  const void *first = a.first.getAsOpaquePointer(), *second = b.first.getAsOpaquePointer();
  if (first != second)
    return first < second;
  return std::lexicographical_compare(
      a.second.begin(), a.second.end(), b.second.begin(), b.second.end(),
      [](AffineExpr x, AffineExpr y) { return x.getAsOpaquePointer() < y.getAsOpaquePointer(); });
}

Emitter::Emitter(const BodyInfo &info, const KernelPlan &plan, OpBuilder &builder)
    : info(info), plan(plan), builder(builder), loc(info.body.getParentOp()->getLoc()),
      math(builder.getContext()) {}

FailureOr<func::FuncOp> Emitter::emitFunction(StringRef name) {
  MLIRContext *context = builder.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context), i64 = builder.getI64Type();
  auto func = func::FuncOp::create(builder, loc, name,
                                   builder.getFunctionType({pointer, i64, i64, pointer}, {}));
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = func.addEntryBlock();
  pushScope(entry);
  begin = entry->getArgument(1);
  end = entry->getArgument(2);
  scratch = entry->getArgument(3);

  auto domain = LLVM::AliasScopeDomainAttr::get(context, builder.getStringAttr(name));
  unsigned count = info.body.getNumArguments() + info.results.size();
  for (unsigned i = 0; i <= count; ++i)
    aliasScopes.push_back(LLVM::AliasScopeAttr::get(
        context, DistinctAttr::create(builder.getI64IntegerAttr(i)), domain, StringAttr()));
  position();
  for (unsigned i = 0; i < count; ++i) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer, entry->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    auto loaded = LLVM::LoadOp::create(builder, loc, pointer, slot);
    loaded.setInvariant(true);
    arguments.push_back(loaded);
  }
  emitKind();
  position();
  func::ReturnOp::create(builder, loc);
  popScope();
  if (failed)
    return failure();
  return func;
}

// Scopes.

void Emitter::pushScope(Block *block) {
  scopes.emplace_back();
  scopes.back().block = block;
}

void Emitter::popScope() { scopes.pop_back(); }

void Emitter::position() {
  if (scope().before)
    builder.setInsertionPoint(scope().before);
  else
    builder.setInsertionPointToEnd(scope().block);
}

Emitter::OuterScopes::OuterScopes(Emitter &emitter, int depth) : emitter(emitter) {
  for (int i = depth + 1; i < static_cast<int>(emitter.scopes.size()); ++i)
    inner.push_back(std::move(emitter.scopes[i]));
  emitter.scopes.resize(emitter.scopes.size() - inner.size());
}

Emitter::OuterScopes::~OuterScopes() {
  for (Scope &saved : inner)
    emitter.scopes.push_back(std::move(saved));
}

void Emitter::fail(Operation *op, const Twine &message) {
  if (!failed)
    op->emitError() << message;
  failed = true;
}

Value Emitter::poison(Type type) {
  position();
  return LLVM::PoisonOp::create(builder, loc, type);
}

// Loops.

Emitter::Values Emitter::loopBetween(Value low, Value high, int64_t step, Range range,
                                     ValueRange initial, const Body &body, bool parallel) {
  Value stride = constantInt(step);
  position();
  auto loop = scf::ForOp::create(builder, loc, low, high, stride, initial);
  if (!loop.getBody()->empty() && initial.empty())
    loop.getBody()->getTerminator()->erase();
  size_t parent = scopes.size() - 1;
  Operation *before = scopes[parent].before;
  scopes[parent].before = loop;
  pushScope(loop.getBody());
  if (parallel) {
    auto group = LLVM::AccessGroupAttr::get(builder.getContext(),
                                            DistinctAttr::create(builder.getUnitAttr()));
    scope().accessGroup = group;
    loop->setAttr("loop_annotation", LLVM::LoopAnnotationAttr::get(
                                         builder.getContext(), {}, {}, {}, {}, {}, {}, {}, {}, {},
                                         {}, {}, {}, {}, {}, {group}));
  }
  AffineExpr variable = math.newVariable(range, depth());
  variableValues.push_back(loop.getInductionVar());
  scope().variable = variable;
  Values results = body(variable, loop.getRegionIterArgs());
  position();
  scf::YieldOp::create(builder, loc, results);
  popScope();
  scopes[parent].before = before;
  return Values(loop.getResults());
}

Emitter::Values Emitter::loop(Range range, std::optional<LoopId> id, unsigned position,
                              ValueRange initial, const Body &body, bool parallel) {
  Value low = constantInt(range.low), high = constantInt(range.high);
  auto inScope = [&](AffineExpr variable, Accumulators accumulators) {
    scope().loop = id;
    scope().position = position;
    scope().extent = id ? plan.loops.at(*id).extents[position] : 0;
    return body(variable, accumulators);
  };
  return loopBetween(low, high, 1, range, initial, inScope, parallel);
}

Emitter::Values Emitter::nestFrom(LoopId id, unsigned position, AffineExpr linear,
                                  ValueRange initial, const Body &body, bool parallel) {
  const LoopShape &shape = plan.loops.at(id);
  int64_t extent = shape.extents[position];
  bool innermost = position + 1 == shape.extents.size();
  SmallVector<int64_t> ends;
  if (innermost)
    ends.append(shape.cuts.begin(), shape.cuts.end());
  ends.push_back(extent);
  Values current(initial);
  int64_t low = 0;
  for (int64_t high : ends) {
    current = loop(
        {low, high}, id, position, current,
        [&](AffineExpr variable, Accumulators accumulators) {
          AffineExpr number = math.add(math.multiply(linear, extent), variable);
          scope().cuttable = innermost;
          if (innermost)
            return body(number, accumulators);
          return nestFrom(id, position + 1, number, accumulators, body, parallel);
        },
        parallel && innermost);
    low = high;
  }
  return current;
}

Emitter::Values Emitter::nest(LoopId id, ValueRange initial, const Body &body, bool parallel) {
  return nestFrom(id, 0, math.constant(0), initial, body, parallel);
}

void Emitter::mainLoop(const std::function<void(AffineExpr)> &body, bool parallel,
                       std::optional<LoopId> id) {
  loopBetween(
      begin, end, 1, {0, plan.extent}, {},
      [&](AffineExpr variable, Accumulators) {
        scope().loop = id;
        scope().extent = plan.extent;
        body(variable);
        return Values();
      },
      parallel);
}

// Integers.

Value Emitter::constant(TypedAttr value) {
  auto known = scopes[0].constants.find(value);
  if (known != scopes[0].constants.end())
    return known->second;
  OuterScopes outer(*this, 0);
  position();
  Value result = arith::ConstantOp::create(builder, loc, value);
  scopes[0].constants[value] = result;
  return result;
}

Value Emitter::constantInt(int64_t value) { return constant(builder.getI64IntegerAttr(value)); }

Value Emitter::constantOf(Type type, double value) {
  if (isa<FloatType>(type))
    return constant(builder.getFloatAttr(type, value));
  return constant(builder.getIntegerAttr(type, static_cast<int64_t>(value)));
}

AffineExpr Emitter::variableFor(Value value, Range range) {
  AffineExpr variable = math.newVariable(range, depth());
  variableValues.push_back(value);
  return variable;
}

Value Emitter::lower(AffineExpr expr) {
  if (auto value = dyn_cast<AffineConstantExpr>(expr))
    return constantInt(value.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return variableValues[dim.getPosition()];
  int at = math.depth(expr);
  if (Value known = scopes[at].integers.lookup(expr))
    return known;
  noteDivisions(expr);
  OuterScopes outer(*this, at);
  Value result = lowerBinary(cast<AffineBinaryOpExpr>(expr));
  scope().integers[expr] = result;
  return result;
}

/// The terms of a sum that belong to loops outside `depth`, and the others.
static void separate(IndexMath &math, AffineExpr expr, int depth, AffineExpr &outer,
                     AffineExpr &inner) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (binary && binary.getKind() == AffineExprKind::Add) {
    separate(math, binary.getLHS(), depth, outer, inner);
    separate(math, binary.getRHS(), depth, outer, inner);
    return;
  }
  AffineExpr &side = math.depth(expr) < depth ? outer : inner;
  side = side ? side + expr : expr;
}

Value Emitter::lowerBinary(AffineBinaryOpExpr expr) {
  auto noWrap = arith::IntegerOverflowFlags::nsw;
  if (expr.getKind() == AffineExprKind::Add) {
    AffineExpr outer, inner;
    separate(math, expr, depth(), outer, inner);
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

void Emitter::noteDivisions(AffineExpr expr) {
  if (findings.split)
    return;
  for (const Scope &open : scopes) {
    if (!open.loop)
      continue;
    int64_t inner = math.splitOf(expr, open.variable);
    if (inner > 1 && inner < open.extent && open.extent % inner == 0) {
      findings.split = {*open.loop, open.position, inner};
      return;
    }
  }
}

void Emitter::noteCut(AffineExpr position, int64_t boundary) {
  const Scope &inner = scope();
  if (findings.cut || !inner.cuttable || plan.loops.at(*inner.loop).cuts.size() >= kMostCuts)
    return;
  auto offset = dyn_cast<AffineConstantExpr>(math.add(position, math.multiply(inner.variable, -1)));
  if (!offset)
    return;
  int64_t cut = boundary - offset.getValue();
  Range range = math.range(inner.variable);
  if (cut > range.low && cut < range.high)
    findings.cut = {*inner.loop, cut};
}

// Memory.

Value Emitter::address(Value base, AffineExpr offset, Type element) {
  Value index = lower(offset);
  position();
  return LLVM::GEPOp::create(builder, loc, base.getType(), element, base,
                             ArrayRef<LLVM::GEPArg>{index}, LLVM::GEPNoWrapFlags::inbounds);
}

/// Arguments don't overlap each other nor scratch, except a result and the operand whose buffer
/// it may take over.
template <typename MemoryOp> void Emitter::annotate(MemoryOp op, unsigned slot) {
  SmallVector<Attribute> others;
  unsigned operands = info.body.getNumArguments();
  for (auto [other, scopeAttr] : llvm::enumerate(aliasScopes)) {
    bool shared = other == slot;
    for (auto [result, operand] : llvm::enumerate(plan.inPlace)) {
      unsigned a = operands + result;
      int64_t b = operand;
      shared |= b >= 0 && ((a == slot && b == static_cast<int64_t>(other)) ||
                           (a == other && b == static_cast<int64_t>(slot)));
    }
    if (!shared)
      others.push_back(scopeAttr);
  }
  op.setAliasScopesAttr(builder.getArrayAttr({aliasScopes[slot]}));
  op.setNoaliasScopesAttr(builder.getArrayAttr(others));
  if (scope().accessGroup)
    op.setAccessGroupsAttr(builder.getArrayAttr({scope().accessGroup}));
}

template void Emitter::annotate(LLVM::LoadOp, unsigned);
template void Emitter::annotate(LLVM::StoreOp, unsigned);

void Emitter::noteRead(unsigned argument, AffineExpr offset) {
  Findings::Reads &reads = findings.reads[argument];
  bool written = writtenElement && offset == writtenElement;
  auto [entry, fresh] = reads.onlyWrittenElement.try_emplace(storeLoop, written);
  if (!fresh)
    entry->second &= written;
  bool inRow = false;
  if (rowVariable) {
    auto type = cast<RankedTensorType>(info.body.getArgument(argument).getType());
    int64_t columns = type.getNumElements() / plan.rows;
    Range range = math.range(math.add(offset, math.multiply(rowVariable, -columns)));
    inRow = columns > 0 && range.low >= 0 && range.high <= columns;
  }
  reads.onlyThisRow &= inRow;
}

Value Emitter::loadOneOf(ArrayRef<Place> places, ArrayRef<Value> conditions) {
  auto element = getElementTypeOrSelf(info.body.getArgument(places[0].argument).getType());
  Type stored = storageType(element);
  AffineExpr inner;
  Value base;
  int outside = depth() - 1;
  for (auto [place, condition] : llvm::zip(places, conditions)) {
    noteRead(place.argument, place.offset);
    AffineExpr outer, ownInner;
    separate(math, place.offset, depth(), outer, ownInner);
    ownInner = ownInner ? ownInner : math.constant(0);
    if (inner && inner != ownInner)
      return {};
    inner = ownInner;
    OuterScopes hidden(*this, outside);
    Value start = address(arguments[place.argument], outer ? outer : math.constant(0), stored);
    base = base ? select(condition, start, base) : start;
  }
  Value from = address(base, inner, stored);
  position();
  auto loaded = LLVM::LoadOp::create(builder, loc, stored, from, storageBytes(element));
  // Which operand it reads is only known at run time; it is none that a result overwrites.
  unsigned operands = info.body.getNumArguments();
  loaded.setNoaliasScopesAttr(builder.getArrayAttr(
      ArrayRef<Attribute>(aliasScopes).drop_front(operands)));
  if (scope().accessGroup)
    loaded.setAccessGroupsAttr(builder.getArrayAttr({scope().accessGroup}));
  return fromStorage(builder, loc, loaded, element);
}

Value Emitter::load(unsigned argument, const Index &index) {
  auto type = cast<RankedTensorType>(info.body.getArgument(argument).getType());
  AffineExpr offset = math.linearize(index, type.getShape());
  noteRead(argument, offset);
  Type element = type.getElementType(), stored = storageType(element);
  Value from = address(arguments[argument], offset, stored);
  position();
  auto loaded = LLVM::LoadOp::create(builder, loc, stored, from, storageBytes(element));
  annotate(loaded, argument);
  return fromStorage(builder, loc, loaded, element);
}

void Emitter::storeAt(unsigned result, AffineExpr offset, Value value) {
  findings.writtenIn.try_emplace(result, storeLoop);
  unsigned slot = info.body.getNumArguments() + result;
  Type element = getElementTypeOrSelf(info.results[result]), stored = storageType(element);
  Value to = address(arguments[slot], offset, stored);
  position();
  Value bits = toStorage(builder, loc, value, element);
  annotate(LLVM::StoreOp::create(builder, loc, bits, to, storageBytes(element)), slot);
}

Value Emitter::storedValue(unsigned result, const Index &index) {
  // Storing rounds by itself.
  Value value = info.results[result];
  if (auto truncation = value.getDefiningOp<arith::TruncFOp>())
    if (computeType(getElementTypeOrSelf(truncation.getIn())) ==
        computeType(getElementTypeOrSelf(value)))
      value = truncation.getIn();
  return emit(value, index);
}

Value Emitter::loadScratch(int64_t byteOffset, AffineExpr element, Type type) {
  int64_t size = storageBytes(type);
  Value from = address(scratch, math.add(element, byteOffset / size), type);
  position();
  auto loaded = LLVM::LoadOp::create(builder, loc, type, from, size);
  annotate(loaded, aliasScopes.size() - 1);
  return loaded;
}

void Emitter::storeScratch(int64_t byteOffset, AffineExpr element, Value value) {
  int64_t size = storageBytes(value.getType());
  Value to = address(scratch, math.add(element, byteOffset / size), value.getType());
  position();
  annotate(LLVM::StoreOp::create(builder, loc, value, to, size), aliasScopes.size() - 1);
}

} // namespace dtc::cpu
