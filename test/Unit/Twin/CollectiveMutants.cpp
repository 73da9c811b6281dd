// Faults in what ranks exchange: with others than they should, in another order, or not at all.
#include "StepMutantMaker.h"

#include "dtc/Dialect/Graph/RandomOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::twin::test {
namespace {

/// Whether ranks only take parts again of what they gather. Along another axis that may be what
/// each of them had, so that nothing changes.
bool isDividedAgain(dist::AllGatherOp gather) {
  SmallVector<Value> gathered(gather->getResults());
  while (!gathered.empty())
    for (Operation *user : gathered.pop_back_val().getUsers()) {
      if (isa<dist::SliceOp>(user))
        continue;
      if (!isa<PadOp, ReshapeOp>(user))
        return false;
      llvm::append_range(gathered, user->getResults());
    }
  return true;
}

Value sliced(OpBuilder &builder, Value value, int64_t dim, int64_t offset, int64_t length) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape()), offsets(shape.size()), strides(shape.size(), 1);
  shape[dim] = length;
  offsets[dim] = offset;
  return SliceOp::create(builder, value.getLoc(), type.clone(shape), value, offsets, strides);
}

/// Along a dimension the first part of this size becomes the last one.
Value rotated(OpBuilder &builder, Value value, int64_t dim, int64_t size) {
  Value rest = sliced(builder, value, dim, size, shapeOf(value)[dim] - size);
  Value first = sliced(builder, value, dim, 0, size);
  return ConcatOp::create(builder, value.getLoc(), value.getType(), ValueRange{rest, first}, dim);
}

/// The dimension that a call divides among ranks, or joins; none of another call.
std::optional<int64_t> dividedDim(Operation *op) {
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<dist::AllGatherOp, dist::ReduceScatterOp, dist::SliceOp>(
          [](auto call) { return call.getDim(); })
      .Case([](dist::AllToAllOp exchange) { return exchange.getConcatDim(); })
      .Default([](Operation *) { return std::nullopt; });
}

/// The ranks' parts of what a call makes, or of what it divides, in another order.
void reorder(Operation *at, unsigned index) {
  const int64_t dim = *dividedDim(at);
  Value input = at->getOperand(index), output = at->getResult(index);
  const int64_t from = shapeOf(input)[dim], to = shapeOf(output)[dim];
  OpBuilder builder(at);
  if (from > to) {
    at->setOperand(index, rotated(builder, input, dim, to));
    return;
  }
  builder.setInsertionPointAfter(at);
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : output.getUses())
    uses.push_back(&use);
  Value other = rotated(builder, output, dim, from);
  for (OpOperand *use : uses)
    use->set(other);
}

void gatherAlone(Operation *at, unsigned index) {
  const int64_t dim = *dividedDim(at);
  Value own = at->getOperand(index), all = at->getResult(index);
  SmallVector<Value> copies(shapeOf(all)[dim] / shapeOf(own)[dim], own);
  OpBuilder builder(at);
  all.replaceAllUsesWith(ConcatOp::create(builder, at->getLoc(), all.getType(), copies, dim));
}

/// Each rank keeps what it has for others.
void exchangeAlone(Operation *at, unsigned index) {
  auto exchange = cast<dist::AllToAllOp>(at);
  const auto dim = static_cast<int64_t>(exchange.getSplitDim());
  Value own = at->getOperand(index), all = at->getResult(index);
  const int64_t size = shapeOf(all)[dim];
  OpBuilder builder(at);
  SmallVector<Value> parts;
  for (int64_t offset = 0; offset < shapeOf(own)[dim]; offset += size)
    parts.push_back(sliced(builder, own, dim, offset, size));
  all.replaceAllUsesWith(
      ConcatOp::create(builder, at->getLoc(), all.getType(), parts, exchange.getConcatDim()));
}

/// Each rank keeps its part of its own term.
void scatterAlone(Operation *at, unsigned index) {
  auto scatter = cast<dist::ReduceScatterOp>(at);
  Value input = scatter.getInputs()[index], output = scatter.getOutputs()[index];
  OpBuilder builder(at);
  output.replaceAllUsesWith(dist::SliceOp::create(builder, at->getLoc(), output.getType(), input,
                                                  scatter.getMesh(), scatter.getAxes(),
                                                  scatter.getDim())
                                ->getResult(0));
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> sources) {
  SmallVector<int64_t> targets(sources.size());
  for (auto [position, source] : llvm::enumerate(sources))
    targets[source] = static_cast<int64_t>(position);
  return targets;
}

SmallVector<OpOperand *> usesInOrder(Value value) {
  SmallVector<OpOperand *> uses(llvm::make_pointer_range(value.getUses()));
  llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
    if (a->getOwner() == b->getOwner())
      return a->getOperandNumber() < b->getOperandNumber();
    return a->getOwner()->isBeforeInBlock(b->getOwner());
  });
  return uses;
}

/// Whether a rank's position decides which random numbers it draws.
bool drawsNumbers(Operation *index) {
  SmallVector<Operation *> later = {index};
  DenseSet<Operation *> seen;
  while (!later.empty())
    for (Operation *user : later.pop_back_val()->getUsers()) {
      if (isa<PhiloxOp>(user))
        return true;
      if (seen.insert(user).second && isa<arith::MulIOp, arith::AddIOp, BroadcastOp>(user))
        later.push_back(user);
    }
  return false;
}

} // namespace

/// One of several readers of a sum takes the rank's own term.
void StepMutantMaker::visitReaders(Operation *op) {
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    const size_t readers = usesInOrder(op->getResult(i)).size();
    for (size_t reader = 0; readers > 1 && reader < readers; ++reader)
      add(
          "reader of an own term", op,
          [i, reader](Operation *at) {
            usesInOrder(at->getResult(i))[reader]->set(at->getOperand(i));
          },
          " " + std::to_string(i) + " of reader " + std::to_string(reader));
  }
}

/// A sum that is missing, made twice, or of the wrong kind.
void StepMutantMaker::visitSums(dist::AllReduceOp op) {
  if (op.getKind() == ReduceKind::Sum) {
    add("dropped sum", op, [](Operation *at) { at->replaceAllUsesWith(at->getOperands()); });
    add("doubled sum", op, [](Operation *at) {
      OpBuilder builder(at->getContext());
      builder.setInsertionPointAfter(at);
      Operation *again = builder.clone(*at);
      for (auto [once, twice] : llvm::zip(at->getResults(), again->getResults()))
        once.replaceAllUsesExcept(twice, again);
      again->setOperands(at->getResults());
    });
    add("largest instead of sum", op,
        [](Operation *at) { cast<dist::AllReduceOp>(at).setKind(ReduceKind::Max); });
    visitReaders(op);
    visitGroup(op);
  } else {
    add("dropped maximum", op, [](Operation *at) { at->replaceAllUsesWith(at->getOperands()); });
  }
  visitBucket(op);
}

/// Chunks of a sequence that ranks don't have, where parts are in zig-zag.
void StepMutantMaker::visitChunks(ConcatOp op) {
  Value whole;
  for (Value chunk : op.getInputs()) {
    auto slice = chunk.getDefiningOp<SliceOp>();
    if (!slice || (whole && slice.getInput() != whole))
      return;
    whole = slice.getInput();
  }
  if (op.getInputs().size() < 4 || !isRead(op.getResult()))
    return;
  add("wrong chunk", op, [](Operation *at) {
    Value first = at->getOperand(0), second = at->getOperand(1);
    at->setOperand(0, second);
    at->setOperand(1, first);
  });
}

/// Ranks along other axes.
void StepMutantMaker::visitAxes(Operation *op) {
  if (auto gather = dyn_cast<dist::AllGatherOp>(op); gather && isDividedAgain(gather))
    return;
  auto mesh = *op->getParentOfType<ModuleOp>().getOps<dist::MeshOp>().begin();
  auto axes = op->getAttrOfType<dist::AxesAttr>("axes");
  for (auto [name, size] : llvm::zip(mesh.getNames().getAsRange<StringAttr>(), mesh.getSizes())) {
    bool isOther =
        axes.getNames().size() == 1 && axes.getNames()[0] != name &&
        dist::toMesh(mesh).axes[dist::toMesh(mesh).find(axes.getNames()[0].str())].size == size;
    if (!isOther)
      continue;
    add("wrong axis", op, [name = name](Operation *at) {
      at->setAttr("axes", dist::AxesAttr::get(at->getContext(), {name}));
    });
    break;
  }
}

/// A sum over a group of ranks that lacks an axis, or has one too many.
void StepMutantMaker::visitGroup(dist::AllReduceOp op) {
  auto mesh = *op->getParentOfType<ModuleOp>().getOps<dist::MeshOp>().begin();
  ArrayRef<StringAttr> axes = op.getAxes().getNames();
  for (const sharding::MeshAxis &axis : dist::toMesh(mesh).axes) {
    const bool has = llvm::any_of(axes, [&](StringAttr name) { return name == axis.name; });
    if (axis.size == 1 || (has && axes.size() == 1))
      continue;
    SmallVector<StringAttr> others;
    for (const sharding::MeshAxis &other : dist::toMesh(mesh).axes)
      if (auto name = StringAttr::get(op.getContext(), other.name);
          llvm::is_contained(axes, name) != (other.name == axis.name))
        others.push_back(name);
    auto group = dist::AxesAttr::get(op.getContext(), others);
    add(
        has ? "group without an axis" : "group with another axis", op,
        [group](Operation *at) { cast<dist::AllReduceOp>(at).setAxesAttr(group); },
        " " + axis.name);
  }
}

/// Ranks that all take themselves for the first.
void StepMutantMaker::visitIndex(dist::AxisIndexOp op) {
  add(drawsNumbers(op) ? "unsharded seed" : "unsharded index", op, [](Operation *at) {
    OpBuilder builder(at);
    auto type = cast<RankedTensorType>(at->getResult(0).getType());
    at->getResult(0).replaceAllUsesWith(
        arith::ConstantOp::create(builder, at->getLoc(), cast<TypedAttr>(builder.getZeroAttr(type)))
            ->getResult(0));
  });
}

/// A tensor that a call for several leaves out, or takes for another one.
void StepMutantMaker::visitBucket(Operation *op) {
  const bool scatters = isa<dist::ReduceScatterOp>(op), reduces = isa<dist::AllReduceOp>(op);
  for (unsigned i = 0; i < op->getNumResults() && op->getNumResults() > 1; ++i)
    if (isRead(op->getResult(i)) && (scatters || reduces))
      add(
          "tensor left out of a bucket", op,
          [=](Operation *at) {
            if (scatters)
              scatterAlone(at, i);
            else
              at->getResult(i).replaceAllUsesWith(at->getOperand(i));
          },
          " " + std::to_string(i));
  for (unsigned i = 1; i < op->getNumResults(); ++i)
    if (op->getResult(i).getType() == op->getResult(0).getType()) {
      add("wrong tensor of a bucket", op, [i](Operation *at) {
        Value first = at->getResult(0), other = at->getResult(i);
        SmallVector<OpOperand *> uses;
        for (OpOperand &use : first.getUses())
          uses.push_back(&use);
        other.replaceAllUsesWith(first);
        for (OpOperand *use : uses)
          use->set(other);
      });
      break;
    }
}

/// The parts of ranks in another order, or those of others not at all.
void StepMutantMaker::visitParts(Operation *op) {
  const int64_t dim = *dividedDim(op);
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    if (!isRead(op->getResult(i)) ||
        shapeOf(op->getOperand(i))[dim] == shapeOf(op->getResult(i))[dim])
      continue;
    std::string detail = " " + std::to_string(i);
    add("wrong order of parts", op, [i](Operation *at) { reorder(at, i); }, detail);
    if (isa<dist::AllGatherOp>(op))
      add("lost exchange", op, [i](Operation *at) { gatherAlone(at, i); }, detail);
    if (isa<dist::AllToAllOp>(op))
      add("lost exchange", op, [i](Operation *at) { exchangeAlone(at, i); }, detail);
  }
}

/// What a rank sends on, kept by itself, or sent the other way round.
void StepMutantMaker::visitPermute(dist::PermuteOp op) {
  add("lost exchange", op,
      [](Operation *at) { at->getResult(0).replaceAllUsesWith(at->getOperand(0)); });
  if (ArrayRef(inverse(op.getSources())) != op.getSources())
    add("wrong neighbour", op, [](Operation *at) {
      auto permute = cast<dist::PermuteOp>(at);
      permute.setSources(inverse(permute.getSources()));
    });
}

void StepMutantMaker::visitCollective(Operation *op) {
  visitAxes(op);
  if (auto index = dyn_cast<dist::AxisIndexOp>(op))
    return visitIndex(index);
  if (auto permute = dyn_cast<dist::PermuteOp>(op))
    return visitPermute(permute);
  visitParts(op);
  if (isa<dist::AllGatherOp, dist::ReduceScatterOp>(op))
    visitBucket(op);
  if (!isa<dist::ReduceScatterOp>(op))
    return;
  add("dropped scattered sum", op, [](Operation *at) {
    for (unsigned i = 0; i < at->getNumResults(); ++i)
      scatterAlone(at, i);
  });
  add("largest instead of sum", op,
      [](Operation *at) { cast<dist::ReduceScatterOp>(at).setKind(ReduceKind::Max); });
}

} // namespace dtc::twin::test
