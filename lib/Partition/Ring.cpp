#include "Ring.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include <limits>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::partition {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The steps of one op.
class RingSteps {
public:
  RingSteps(OpBuilder &builder, Location loc, const NamedMesh &mesh, const sharding::AxisList &axes,
            bool causal)
      : b(builder, loc), mesh(mesh), axes(dist::toAttr(builder.getContext(), axes, mesh.mesh)),
        count(mesh.mesh.size(axes)), causal(causal) {}

  SmallVector<Value> attention(AttentionOp op, ValueRange operands);
  SmallVector<Value> gradients(AttentionGradOp op, ValueRange operands);

private:
  /// Keeps apart what would be merged or become one kernel otherwise.
  Value apart(Value value) { return BarrierOp::create(b.builder, b.loc, value.getType(), value); }
  /// What the rank before has.
  Value passedOn(Value value);
  /// Row statistics where keys of that step are seen, else `hidden`.
  Value whereSeen(Value statistics, int64_t step, double hidden);
  /// exp(statistics - all) of each row, for each element of a result of that shape.
  Value weight(Value statistics, Value all, ArrayRef<int64_t> shape);

  struct Result {
    Value output, lse; ///< in the statistics' type
  };
  Result merged(const Result &one, const Result &other);

  TensorBuilder b;
  const NamedMesh &mesh;
  dist::AxesAttr axes;
  int64_t count;
  bool causal;
};

} // namespace

Value RingSteps::passedOn(Value value) {
  SmallVector<int64_t> sources;
  for (int64_t position = 0; position < count; ++position)
    sources.push_back((position + count - 1) % count);
  return dist::PermuteOp::create(b.builder, b.loc, value.getType(), value, mesh.name.getValue(),
                                 axes, sources);
}

/// In step n the rank at position p has the keys of position p - n, or p - n + count.
Value RingSteps::whereSeen(Value statistics, int64_t step, double hidden) {
  if (!causal || step == 0)
    return statistics;
  auto type = RankedTensorType::get({}, b.builder.getI64Type());
  Value position = dist::AxisIndexOp::create(b.builder, b.loc, type, mesh.name, axes);
  Value isSeen = b.compare(arith::CmpIPredicate::sge, position, step);
  return b.selectOr(b.broadcast(isSeen, {}, shapeOf(statistics)), statistics, hidden);
}

Value RingSteps::weight(Value statistics, Value all, ArrayRef<int64_t> shape) {
  Value rows = b.unary<math::ExpOp>(b.sub(statistics, all)); // [b,h,s]
  return b.spread(b.transpose(rows, {0, 2, 1}), shape, {3});
}

/// Each row sees a key of the first step, so that the larger of two statistics is finite.
RingSteps::Result RingSteps::merged(const Result &one, const Result &other) {
  Value most = b.maximum(one.lse, other.lse);
  Value total = b.add(b.unary<math::ExpOp>(b.sub(one.lse, most)),
                      b.unary<math::ExpOp>(b.sub(other.lse, most)));
  Value lse = b.add(most, b.unary<math::LogOp>(total));
  ArrayRef<int64_t> shape = shapeOf(one.output);
  return {b.add(b.mul(one.output, weight(one.lse, lse, shape)),
                b.mul(other.output, weight(other.lse, lse, shape))),
          lse};
}

SmallVector<Value> RingSteps::attention(AttentionOp op, ValueRange operands) {
  Value query = operands[0], key = operands[1], value = operands[2];
  SmallVector<int64_t> shape = {shapeOf(query)[0], shapeOf(query)[1], shapeOf(query)[2],
                                shapeOf(value)[3]};
  auto type = cast<RankedTensorType>(query.getType()).clone(shape);
  Type lseType =
      RankedTensorType::get({shape[0], shape[2], shape[1]}, statisticsType(type.getElementType()));
  Result all;
  for (int64_t step = 0; step < count; ++step) {
    Value nextKey, nextValue;
    if (step + 1 < count) { // on their way beside this step
      nextKey = passedOn(key);
      nextValue = passedOn(value);
    }
    auto part = AttentionOp::create(b.builder, b.loc, type, lseType, query, key, value, Value(),
                                    op.getScale(), causal && step == 0);
    // One kernel for all steps would hold the scores of all, and what they make.
    Value lse = whereSeen(apart(part.getLse()), step, -kInfinity);
    Result result = {b.widen(part.getResult()), lse};
    all = step == 0 ? result : merged(all, result);
    if (step > 0 && step + 1 < count)
      all = {apart(all.output), apart(all.lse)};
    key = nextKey;
    value = nextValue;
  }
  return {b.convert(all.output, type.getElementType()), all.lse};
}

SmallVector<Value> RingSteps::gradients(AttentionGradOp op, ValueRange operands) {
  Value query = operands[0], output = operands[3], lse = operands[4], grad = operands[5];
  // Not what the forward pass passed on, which would have to be kept.
  Value key = apart(operands[1]), value = apart(operands[2]);
  Value queryGrad, ownKeyGrad, ownValueGrad, keyGrad, valueGrad;
  for (int64_t step = 0; step < count; ++step) {
    Value nextKey, nextValue;
    if (step + 1 < count) {
      nextKey = passedOn(key);
      nextValue = passedOn(value);
    }
    auto part = AttentionPartGradOp::create(
        b.builder, b.loc, query.getType(), key.getType(), value.getType(), query, key, value,
        output, whereSeen(lse, step, kInfinity), grad, op.getScale(), causal && step == 0);
    queryGrad = step == 0 ? part.getQueryGrad() : b.add(apart(queryGrad), part.getQueryGrad());
    if (step == 0) {
      ownKeyGrad = part.getKeyGrad();
      ownValueGrad = part.getValueGrad();
    } else {
      keyGrad = passedOn(step == 1 ? part.getKeyGrad() : b.add(keyGrad, part.getKeyGrad()));
      valueGrad = passedOn(step == 1 ? part.getValueGrad() : b.add(valueGrad, part.getValueGrad()));
    }
    key = nextKey;
    value = nextValue;
  }
  return {queryGrad, b.add(ownKeyGrad, keyGrad), b.add(ownValueGrad, valueGrad)};
}

FailureOr<SmallVector<Value>> buildRing(OpBuilder &builder, Operation *op, ValueRange operands,
                                        const NamedMesh &mesh, const sharding::AxisList &axes) {
  auto forward = dyn_cast<AttentionOp>(op);
  auto backward = dyn_cast<AttentionGradOp>(op);
  bool hasBias = (forward && forward.getBias()) || (backward && backward.getBias());
  if ((!forward && !backward) || hasBias)
    return op->emitOpError("has no steps in which tensors could go round the ranks");
  bool causal = forward ? forward.getCausal() : backward.getCausal();
  int64_t queries = shapeOf(operands[0])[1], keys = shapeOf(operands[1])[1];
  if (causal && queries != keys)
    return op->emitOpError("can't go round the ranks: its mask doesn't begin with the keys, ")
           << queries << " queries and " << keys << " keys on a rank";
  RingSteps steps(builder, op->getLoc(), mesh, axes, causal);
  return forward ? steps.attention(forward, operands) : steps.gradients(backward, operands);
}

bool goesRound(Operation *op) {
  auto choice = op->getAttrOfType<dist::OpShardingAttr>(dist::DistDialect::kOp);
  if (!choice)
    return false;
  llvm::SmallDenseSet<Attribute> seen;
  for (dist::AxesAttr axes : choice.getFactors())
    if (!axes.getNames().empty() && !seen.insert(axes).second)
      return true;
  return false;
}

} // namespace dtc::partition
