// Where the elements of a kernel's arguments, constants and scratch lie.
#include "LoopEmitter.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

/// Arguments don't overlap each other nor scratch, except a result and the
/// operand whose buffer it may take over.
template <typename MemoryOp> void LoopEmitter::annotate(MemoryOp op, unsigned slot) {
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
  if (loopHere().accessGroup)
    op.setAccessGroupsAttr(builder.getArrayAttr({loopHere().accessGroup}));
}

template void LoopEmitter::annotate(LLVM::LoadOp, unsigned);
template void LoopEmitter::annotate(LLVM::StoreOp, unsigned);

Value LoopEmitter::loadOneOf(ArrayRef<ElementPlace> places, ArrayRef<Value> conditions) {
  auto element = getElementTypeOrSelf(info.body.getArgument(places[0].argument).getType());
  Type stored = storageType(element);
  AffineExpr inner;
  Value base;
  int outside = evaluator.depth() - 1;
  for (auto [place, condition] : llvm::zip(places, conditions)) {
    noteRead(place.argument, place.offset, plan.rows);
    auto [outer, ownInner] = math.separate(place.offset, evaluator.depth());
    ownInner = ownInner ? ownInner : math.constant(0);
    if (inner && inner != ownInner)
      return {};
    inner = ownInner;
    ElementEvaluator::OuterScopes hidden(evaluator, outside);
    Value start = address(arguments[place.argument], outer ? outer : math.constant(0), stored);
    base = base ? evaluator.select(condition, start, base) : start;
  }
  Value from = address(base, inner, stored);
  evaluator.position();
  auto loaded = LLVM::LoadOp::create(builder, loc, stored, from, storageBytes(element));
  // Which operand it reads is only known at run time; it is none that a result overwrites.
  unsigned operands = info.body.getNumArguments();
  loaded.setNoaliasScopesAttr(
      builder.getArrayAttr(ArrayRef<Attribute>(aliasScopes).drop_front(operands)));
  if (loopHere().accessGroup)
    loaded.setAccessGroupsAttr(builder.getArrayAttr({loopHere().accessGroup}));
  return fromStorage(builder, loc, loaded, element);
}

Value LoopEmitter::load(unsigned argument, AffineExpr offset) {
  noteRead(argument, offset, plan.rows);
  Type element = getElementTypeOrSelf(info.body.getArgument(argument).getType());
  Type stored = storageType(element);
  Value from = address(arguments[argument], offset, stored);
  evaluator.position();
  auto loaded = LLVM::LoadOp::create(builder, loc, stored, from, storageBytes(element));
  annotate(loaded, argument);
  return fromStorage(builder, loc, loaded, element);
}

void LoopEmitter::storeAt(unsigned result, AffineExpr offset, Value value) {
  noteWrite(result);
  unsigned slot = info.body.getNumArguments() + result;
  Type element = getElementTypeOrSelf(info.results[result]), stored = storageType(element);
  Value to = address(arguments[slot], offset, stored);
  evaluator.position();
  Value bits = toStorage(builder, loc, value, element, narrowing());
  annotate(LLVM::StoreOp::create(builder, loc, bits, to, storageBytes(element)), slot);
}

Value LoopEmitter::loadConstant(DenseElementsAttr elements, AffineExpr offset) {
  DenseElementsAttr table = kernels::tableOf(elements);
  Type scalar = table.getElementType();
  std::string name = (function.getName() + ".table" + Twine(numTables++)).str();
  Value base;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    auto array = LLVM::LLVMArrayType::get(scalar, table.getNumElements());
    LLVM::GlobalOp::create(builder, loc, array, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           table);
  }
  {
    kernels::ElementEvaluator::OuterScopes outer(evaluator, 0);
    evaluator.position();
    base = LLVM::AddressOfOp::create(builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
                                     name);
  }
  Value from = address(base, offset, scalar);
  evaluator.position();
  Value loaded = LLVM::LoadOp::create(builder, loc, scalar, from);
  if (!elements.getElementType().isInteger(1))
    return loaded;
  Value zero = arith::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(0));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, loaded, zero);
}

void LoopEmitter::addTo(AffineExpr offset, Value value) {
  unsigned slot = info.body.getNumArguments();
  Type element = getElementTypeOrSelf(info.results[0]);
  Value place = address(arguments[slot], offset, element);
  evaluator.position();
  auto old = LLVM::LoadOp::create(builder, loc, element, place, storageBytes(element));
  annotate(old, slot);
  storeAt(0, offset, evaluator.combine(graph::ReduceKind::Sum, old, value));
}

Value LoopEmitter::loadScratch(int64_t byteOffset, AffineExpr element, Type type) {
  int64_t size = storageBytes(type);
  Value from = address(scratch, math.add(element, byteOffset / size), type);
  evaluator.position();
  auto loaded = LLVM::LoadOp::create(builder, loc, type, from, size);
  annotate(loaded, aliasScopes.size() - 1);
  return loaded;
}

void LoopEmitter::storeScratch(int64_t byteOffset, AffineExpr element, Value value) {
  int64_t size = storageBytes(value.getType());
  Value to = address(scratch, math.add(element, byteOffset / size), value.getType());
  evaluator.position();
  annotate(LLVM::StoreOp::create(builder, loc, value, to, size), aliasScopes.size() - 1);
}

} // namespace dtc::cpu
