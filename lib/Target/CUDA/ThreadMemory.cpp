// Where the elements of a kernel's arguments and constants lie, and what a block shares.
#include "ThreadEmitter.h"
#include "WarpOps.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::shapeOf;

/// Of buffers in the arena, at least.
static constexpr int64_t kBufferAlignment = 64;

/// LLVM widens loads up to the alignment that it is told. So where a buffer doesn't end with a
/// whole access, it is told no more than the buffer's size allows, and reads nothing behind it.
int64_t ThreadEmitter::alignmentOf(unsigned number) const {
  Value buffer = bufferOf(number);
  int64_t bytes = elementsOf(buffer) * storageBytes(getElementTypeOrSelf(buffer));
  return bytes % kAccessBytes == 0 ? kBufferAlignment : bytes & -bytes;
}

Value ThreadEmitter::bufferOf(unsigned number) const {
  unsigned operands = info.body.getNumArguments();
  return number < operands ? Value(info.body.getArgument(number))
                           : info.body.getTerminator()->getOperand(number - operands);
}

/// No buffer overlaps another, but for a result and the operand whose buffer it may take over.
/// Operands that stay are read past the coherent cache.
void ThreadEmitter::setArgumentAttributes() {
  unsigned operands = info.body.getNumArguments();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    bool isShared = i < operands ? llvm::is_contained(plan.inPlace, static_cast<int64_t>(i))
                                 : plan.inPlace[i - operands] >= 0;
    function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                        builder.getI64IntegerAttr(alignmentOf(i)));
    if (isShared)
      continue;
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    if (i < operands)
      function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), builder.getUnitAttr());
  }
}

std::pair<AffineExpr, int64_t> ThreadEmitter::accessOf(Value buffer, AffineExpr offset,
                                                       int64_t width) {
  if (plan.shifted) {
    if (elementsOf(buffer) != plan.items * openColumns)
      return {};
    for (const ColumnUnit &unit : openUnits) {
      AffineExpr start = math.add(math.multiply(rowVariable, openColumns), unit.first);
      auto place = dyn_cast<AffineConstantExpr>(math.add(offset, math.multiply(start, -1)));
      if (place && unit.width == plan.unit && place.getValue() >= 0 &&
          place.getValue() < unit.width)
        return {math.add(offset, -(place.getValue() % width)), place.getValue() % width};
    }
    return {};
  }
  for (int64_t place = 0; place < width; ++place)
    if (AffineExpr first = math.add(offset, -place); first.isMultipleOf(width))
      return {first, place};
  return {};
}

/// In f32 one of an even number of bf16: the upper half of a word, or the lower one moved up.
static Value wideOf(OpBuilder &builder, Location loc, Value halves, int64_t count, int64_t place) {
  Type i32 = builder.getI32Type();
  auto integer = [&](int32_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  };
  Value words = LLVM::BitcastOp::create(builder, loc, VectorType::get({count / 2}, i32), halves);
  Value word = LLVM::ExtractElementOp::create(builder, loc, words, integer(place / 2));
  Value bits = place % 2 == 0
                   ? arith::ShLIOp::create(builder, loc, word, integer(16)).getResult()
                   : arith::AndIOp::create(builder, loc, word, integer(~0xffff)).getResult();
  return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits);
}

/// LLVM makes one access of neighbouring elements, too, but not of all where many are read before
/// any is used. An access of which a single element is used, it makes that element's.
Value ThreadEmitter::elementOfAccess(unsigned argument, AffineExpr offset) {
  Type element = getElementTypeOrSelf(info.body.getArgument(argument).getType());
  const int64_t size = storageBytes(element), width = std::min(plan.unit, kAccessBytes / size);
  if (width <= 1)
    return {};
  auto [first, place] = accessOf(info.body.getArgument(argument), offset, width);
  auto chosen = chosenAlignment.find(argument);
  const int64_t alignment =
      chosen == chosenAlignment.end() ? alignmentOf(argument) : chosen->second;
  if (!first || alignment % (width * size) != 0)
    return {};
  Value &whole = loadedAccesses[{argument, first}];
  evaluator.position();
  if (!whole || whole.getParentBlock() != builder.getInsertionBlock())
    whole = loadAccess(argument, first, VectorType::get({width}, storageType(element)));
  if (element.isBF16())
    return wideOf(builder, loc, whole, width, place);
  Value number = evaluator.constant(builder.getI32IntegerAttr(static_cast<int32_t>(place)));
  evaluator.position();
  Value loaded = LLVM::ExtractElementOp::create(builder, loc, whole, number);
  return fromStorage(builder, loc, loaded, element);
}

Value ThreadEmitter::load(unsigned argument, AffineExpr offset) {
  noteRead(argument, offset, plan.items);
  if (Value loaded = elementOfAccess(argument, offset))
    return loaded;
  Type element = getElementTypeOrSelf(info.body.getArgument(argument).getType());
  Type stored = storageType(element);
  Value from = address(arguments[argument], offset, stored);
  evaluator.position();
  Value loaded = LLVM::LoadOp::create(builder, loc, stored, from,
                                      alignmentOfAccess(argument, offset, storageBytes(element)));
  return fromStorage(builder, loc, loaded, element);
}

int64_t ThreadEmitter::alignmentOfAccess(unsigned number, AffineExpr offset, int64_t size) const {
  auto known = chosenAlignment.find(number);
  if (known == chosenAlignment.end())
    return size;
  int64_t bytes = offset.getLargestKnownDivisor() * size;
  return bytes == 0 ? known->second : std::min(known->second, bytes & -bytes);
}

void ThreadEmitter::storeAt(unsigned result, AffineExpr offset, Value value) {
  noteWrite(result);
  Type element = getElementTypeOrSelf(info.results[result]), stored = storageType(element);
  const unsigned number = info.body.getNumArguments() + result;
  Value to = address(arguments[number], offset, stored);
  evaluator.position();
  Value bits = toStorage(builder, loc, value, element, narrowing());
  LLVM::StoreOp::create(builder, loc, bits, to,
                        alignmentOfAccess(number, offset, storageBytes(element)));
}

void ThreadEmitter::addToResult(AffineExpr offset, Value value) {
  Type element = getElementTypeOrSelf(info.results[0]);
  Value place = address(arguments[info.body.getNumArguments()], offset, element);
  evaluator.position();
  Value old = LLVM::LoadOp::create(builder, loc, element, place, storageBytes(element));
  storeAt(0, offset, evaluator.combine(graph::ReduceKind::Sum, old, value));
}

void ThreadEmitter::writeResults(ArrayRef<unsigned> results, ArrayRef<AffineExpr> numbers) {
  SmallVector<Values> values(results.size());
  for (AffineExpr number : numbers) {
    writtenElement = number;
    for (auto [result, own] : llvm::zip(results, values)) {
      Value tensor = info.results[result];
      own.push_back(evaluator.emitStored(tensor, math.delinearize(number, shapeOf(tensor))));
    }
  }
  writtenElement = {};
  for (auto [result, own] : llvm::zip(results, values))
    if (!storeShifted(result, numbers, own))
      for (auto [number, value] : llvm::zip(numbers, own))
        storeAt(result, number, value);
}

/// LLVM can't know that units of shifted rows are whole accesses.
bool ThreadEmitter::storeShifted(unsigned result, ArrayRef<AffineExpr> numbers, ValueRange values) {
  Type element = getElementTypeOrSelf(info.results[result]), stored = storageType(element);
  const int64_t size = storageBytes(element), width = std::min(plan.unit, kAccessBytes / size);
  const unsigned number = info.body.getNumArguments() + result;
  if (!plan.shifted || openUnits.empty() || openUnits.front().width != plan.unit || width <= 1 ||
      elementsOf(info.results[result]) != plan.items * openColumns ||
      alignmentOf(number) % (width * size) != 0)
    return false;
  noteWrite(result);
  auto type = VectorType::get({width}, stored);
  for (size_t first = 0; first < numbers.size(); first += width) {
    Value to = address(arguments[number], numbers[first], stored);
    evaluator.position();
    Value whole = LLVM::PoisonOp::create(builder, loc, type);
    for (int32_t i = 0; i < width; ++i) {
      Value bits = toStorage(builder, loc, values[first + i], element, narrowing());
      Value place = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(i));
      whole = LLVM::InsertElementOp::create(builder, loc, whole, bits, place);
    }
    LLVM::StoreOp::create(builder, loc, whole, to, static_cast<unsigned>(width * size));
  }
  return true;
}

Value ThreadEmitter::loadConstant(DenseElementsAttr elements, AffineExpr offset) {
  DenseElementsAttr values = kernels::tableOf(elements);
  Type element = elements.getElementType(), scalar = values.getElementType();
  std::string name = (function.getName() + "_table" + Twine(numGlobals++)).str();
  LLVM::GlobalOp table;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    table = LLVM::GlobalOp::create(builder, loc, LLVM::LLVMArrayType::get(scalar, values.size()),
                                   /*isConstant=*/true, LLVM::Linkage::Internal, name, values,
                                   kBufferAlignment, unsigned(NVVM::NVVMMemorySpace::Global));
  }
  Value base;
  {
    ElementEvaluator::OuterScopes outer(evaluator, 0);
    evaluator.position();
    base = LLVM::AddressOfOp::create(builder, loc, table);
  }
  Value from = address(base, offset, scalar);
  evaluator.position();
  Value loaded = LLVM::LoadOp::create(builder, loc, scalar, from);
  return element.isInteger(1) ? fromStorage(builder, loc, loaded, element) : loaded;
}

Value ThreadEmitter::sharedArray(Type element, int64_t count) {
  evaluator.position();
  return cuda::sharedArray(builder, function, "_shared" + Twine(numGlobals++), storageType(element),
                           count);
}

static Value placeIn(OpBuilder &builder, Location loc, Value array, Value index, Type stored) {
  return LLVM::GEPOp::create(builder, loc, array.getType(), stored, array,
                             ArrayRef<LLVM::GEPArg>{index}, LLVM::GEPNoWrapFlags::inbounds);
}

Value ThreadEmitter::loadShared(Value array, Value index, Type element) {
  evaluator.position();
  Type stored = storageType(element);
  Value from = placeIn(builder, loc, array, index, stored);
  Value loaded = LLVM::LoadOp::create(builder, loc, stored, from, storageBytes(element));
  return fromStorage(builder, loc, loaded, element);
}

void ThreadEmitter::storeShared(Value array, Value index, Value value) {
  evaluator.position();
  Type element = value.getType();
  Value to = placeIn(builder, loc, array, index, storageType(element));
  LLVM::StoreOp::create(builder, loc, toStorage(builder, loc, value, element, narrowing()), to,
                        storageBytes(element));
}

} // namespace dtc::cuda
