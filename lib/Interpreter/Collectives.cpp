// The collectives of the `dist` dialect: each group of ranks in the order of
// the members' positions.
#include "Evaluator.h"

#include "dtc/Dialect/Dist/Groups.h"

using namespace mlir;

namespace dtc::interpreter {

bool isCollective(Operation *op) {
  return isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
             dist::PermuteOp, dist::SliceOp, dist::AxisIndexOp>(op);
}

namespace {
/// What a collective sees on one rank of one operand, and what it makes of it. It sees those of its
/// group, and which of them is the rank's own.
struct Member {
  SmallVector<const Tensor *> group;
  int64_t position;
  RankedTensorType type;

  const Tensor &own() const { return *group[position]; }
};
} // namespace

/// Copies `block`, which begins at `fromStart` and `toStart` along `fromDim`
/// and `toDim`, from one tensor to another.
static void copyBlock(const Tensor &from, Tensor &to, ArrayRef<int64_t> block, int64_t fromDim,
                      int64_t fromStart, int64_t toDim, int64_t toStart) {
  Strides fromStrides = stridesOf(from.shape()), toStrides = stridesOf(to.shape());
  auto copy = [&](auto &out, const auto &in) {
    forEachIndex(
        block, toStrides, fromStrides, [&](int64_t o, int64_t i) { out[o] = in[i]; },
        toStart * toStrides[toDim], fromStart * fromStrides[fromDim]);
  };
  onElements(copy, to, from);
}

static Tensor reduced(const Member &member, graph::ReduceKind kind) {
  Tensor total(member.own().type);
  fillNeutral(kind, total);
  auto add = [&](auto &out, const auto &in) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = combine(kind, out[i], in[i]);
  };
  for (const Tensor *tensor : member.group)
    onElements(add, total, *tensor);
  return total;
}

/// The part of `tensor` that the rank keeps along `dim`.
static Tensor part(const Tensor &tensor, RankedTensorType type, int64_t dim, int64_t position) {
  Tensor result(type);
  copyBlock(tensor, result, result.shape(), dim, position * result.shape()[dim], dim, 0);
  return result;
}

static Tensor onMember(dist::AllReduceOp op, const Member &member) {
  return reduced(member, op.getKind());
}

static Tensor onMember(dist::ReduceScatterOp op, const Member &member) {
  return part(reduced(member, op.getKind()), member.type, op.getDim(), member.position);
}

static Tensor onMember(dist::SliceOp op, const Member &member) {
  return part(member.own(), member.type, op.getDim(), member.position);
}

static Tensor onMember(dist::AllGatherOp op, const Member &member) {
  Tensor result(member.type);
  int64_t dim = op.getDim(), start = 0;
  for (const Tensor *tensor : member.group) {
    copyBlock(*tensor, result, tensor->shape(), dim, 0, dim, start);
    start += tensor->shape()[dim];
  }
  return result;
}

static Tensor onMember(dist::AllToAllOp op, const Member &member) {
  Tensor result(member.type);
  int64_t splitDim = op.getSplitDim(), concatDim = op.getConcatDim(), start = 0;
  for (const Tensor *tensor : member.group) {
    SmallVector<int64_t> block(tensor->shape());
    block[splitDim] /= member.group.size();
    copyBlock(*tensor, result, block, splitDim, member.position * block[splitDim], concatDim,
              start);
    start += block[concatDim];
  }
  return result;
}

static Tensor onMember(dist::PermuteOp op, const Member &member) {
  return *member.group[op.getSources()[member.position]];
}

static Tensor onMember(dist::AxisIndexOp op, const Member &member) {
  Tensor result(member.type);
  result.ints[0] = member.position;
  return result;
}

/// Sizes that verifiers without a mesh at hand may have let pass.
static LogicalResult checkSizes(Operation *op, int64_t groupSize, unsigned result) {
  auto check = [&](Value whole, Value shard, int64_t dim) -> LogicalResult {
    SmallVector<int64_t> expected(graph::shapeOf(shard));
    if (dim < 0 || dim >= static_cast<int64_t>(expected.size()))
      return op->emitOpError() << "has no such dimension: " << dim;
    expected[dim] *= groupSize;
    if (graph::shapeOf(whole) == ArrayRef<int64_t>(expected))
      return success();
    return op->emitOpError() << "has sizes that don't fit a group of ranks: " << groupSize;
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<dist::ReduceScatterOp, dist::SliceOp>(
          [&](auto o) { return check(o->getOperand(result), o->getResult(result), o.getDim()); })
      .Case([&](dist::AllGatherOp o) {
        return check(o->getResult(result), o->getOperand(result), o.getDim());
      })
      .Case([&](dist::AllToAllOp o) -> LogicalResult {
        SmallVector<int64_t> expected(graph::shapeOf(o.getInput()));
        if (o.getSplitDim() >= expected.size() || o.getConcatDim() >= expected.size() ||
            expected[o.getSplitDim()] % groupSize != 0)
          return op->emitOpError() << "cannot be split among the group: " << groupSize;
        expected[o.getSplitDim()] /= groupSize;
        expected[o.getConcatDim()] *= groupSize;
        if (graph::shapeOf(o.getResult()) == ArrayRef<int64_t>(expected))
          return success();
        return op->emitOpError() << "has sizes that don't fit a group of ranks: " << groupSize;
      })
      .Case([&](dist::PermuteOp o) -> LogicalResult {
        bool fits = static_cast<int64_t>(o.getSources().size()) == groupSize &&
                    llvm::all_of(o.getSources(),
                                 [&](int64_t from) { return from >= 0 && from < groupSize; });
        if (fits)
          return success();
        return op->emitOpError() << "must name a source for each of the group: " << groupSize;
      })
      .Default(success());
}

FailureOr<std::vector<Tensor>> evaluateCollective(Operation *op, const sharding::Mesh &mesh,
                                                  ArrayRef<Operands> operands,
                                                  unsigned result) {
  dist::AxesAttr axesAttr = dist::axesOf(op);
  std::optional<sharding::AxisList> axes = dist::toAxes(axesAttr, mesh);
  if (!axes)
    return op->emitOpError() << "names an axis that the mesh lacks: " << axesAttr;
  if (failed(checkSizes(op, mesh.size(*axes), result)))
    return failure();
  std::vector<Tensor> results;
  for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
    Member member;
    member.position = mesh.position(rank, *axes);
    member.type = cast<RankedTensorType>(op->getResult(result).getType());
    if (op->getNumOperands() > 0)
      for (int64_t other : mesh.group(rank, *axes))
        member.group.push_back(operands[other][result]);
    results.push_back(
        TypeSwitch<Operation *, Tensor>(op)
            .Case<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
                  dist::PermuteOp, dist::SliceOp, dist::AxisIndexOp>(
                [&](auto collective) { return onMember(collective, member); }));
  }
  return results;
}

} // namespace dtc::interpreter
