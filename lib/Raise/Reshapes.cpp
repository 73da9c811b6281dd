#include "Reshapes.h"

using namespace mlir;

namespace dtc::raise {

std::optional<Runs> collapseRuns(ArrayRef<int64_t> wide, ArrayRef<int64_t> merged) {
  if (wide.size() <= merged.size() || merged.empty())
    return std::nullopt;
  Runs runs;
  size_t next = 0;
  for (size_t i = 0; i < merged.size(); ++i) {
    Shape run;
    int64_t size = 1;
    // A leading 1 (a batch of one) belongs to what follows it.
    while (next < wide.size() && (size != merged[i] || run.empty())) {
      size *= wide[next];
      run.push_back(next++);
    }
    if (i + 1 == merged.size())
      while (next < wide.size() && wide[next] == 1)
        run.push_back(next++);
    if (size != merged[i] || run.empty())
      return std::nullopt;
    runs.push_back(run);
  }
  if (next != wide.size())
    return std::nullopt;
  return runs;
}

std::optional<Split> splitOf(graph::ReshapeOp op) {
  auto from = graph::shapeOf(op.getInput()), to = graph::shapeOf(op.getResult());
  Split split;
  size_t next = 0;
  bool splits = false;
  for (int64_t size : from) {
    Shape parts;
    int64_t done = 1, large = 0;
    while (next < to.size() && (done != size || (size == 1 && parts.empty() && to[next] == 1))) {
      done *= to[next];
      large += to[next] != 1;
      parts.push_back(to[next++]);
    }
    if (done != size)
      return std::nullopt;
    if (parts.empty())
      parts.push_back(1);
    splits |= large > 1;
    split.sizes.push_back(parts);
  }
  for (; next < to.size(); ++next)
    if (to[next] != 1)
      return std::nullopt;
  if (!splits)
    return std::nullopt;
  return split;
}

Shape Split::wide() const {
  Shape all;
  for (const Shape &parts : sizes)
    all.append(parts);
  return all;
}

Shape Split::starts() const {
  Shape first;
  int64_t next = 0;
  for (const Shape &parts : sizes) {
    first.push_back(next);
    next += parts.size();
  }
  return first;
}

void replaceExpanded(PatternRewriter &rewriter, graph::ReshapeOp expand, Value wide) {
  Value old = expand.getInput();
  Emitter emit(expand.getLoc(), rewriter);
  emit.setInsertionPointAfterValue(wide);
  Value expanded = reshape(emit, wide, graph::shapeOf(expand.getResult()));
  // Made before anything is erased: the insertion point may be the erased op.
  Value merged = old.hasOneUse() ? Value() : reshape(emit, wide, graph::shapeOf(old));
  rewriter.replaceOp(expand, expanded);
  if (merged)
    rewriter.replaceAllUsesWith(old, merged);
}

bool differsInUnits(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  auto large = [](ArrayRef<int64_t> shape) {
    Shape kept(shape);
    llvm::erase_if(kept, [](int64_t size) { return size == 1; });
    return kept;
  };
  return large(a) == large(b);
}

std::optional<int64_t> dimThroughUnits(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t dim) {
  if (!differsInUnits(from, to) || to[dim] == 1)
    return std::nullopt;
  int64_t before = llvm::count_if(to.take_front(dim), [](int64_t size) { return size != 1; });
  for (auto [i, size] : llvm::enumerate(from))
    if (size != 1 && before-- == 0)
      return i;
  return std::nullopt;
}

Shape runSizes(ArrayRef<int64_t> wide, ArrayRef<int64_t> run) {
  return llvm::map_to_vector(run, [&](int64_t dim) { return wide[dim]; });
}

Value expandDims(Emitter &emit, Value value, ArrayRef<Shape> sizes) {
  Shape shape;
  for (const Shape &part : sizes)
    shape.append(part);
  return reshape(emit, value, shape);
}

bool actsElementwise(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.getCost().kind == sharding::OpKind::Elementwise;
}

Operation *rebuild(PatternRewriter &rewriter, Operation *op, ValueRange operands,
                   ArrayRef<int64_t> shape) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  return rebuildHere(rewriter, op, operands, shape);
}

Operation *rebuildHere(PatternRewriter &rewriter, Operation *op, ValueRange operands,
                       ArrayRef<int64_t> shape) {
  Operation *copy = rewriter.clone(*op);
  rewriter.modifyOpInPlace(copy, [&] {
    copy->setOperands(operands);
    for (OpResult result : copy->getResults())
      result.setType(tensorType(result).clone(shape));
  });
  return copy;
}

static DenseElementsAttr splatAttr(Value value) {
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat())
    return elements;
  return {};
}

std::optional<double> splatValue(Value value) {
  DenseElementsAttr elements = splatAttr(value);
  if (!elements)
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return elements.getSplatValue<APInt>().getSExtValue();
}

Value reshapeSplat(Emitter &emit, Value value, ArrayRef<int64_t> shape) {
  DenseElementsAttr elements = splatAttr(value);
  if (!elements)
    return {};
  return arith::ConstantOp::create(emit, elements.resizeSplat(elements.getType().clone(shape)));
}

} // namespace dtc::raise
