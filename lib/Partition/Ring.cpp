#include "Ring.h"

#include "Zigzag.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include <array>
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
        count(mesh.mesh.size(axes)), causal(causal), zigzag(causal && areInZigzag(axes, mesh)) {}

  SmallVector<Value> attention(AttentionOp op, ValueRange operands);
  SmallVector<Value> gradients(AttentionGradOp op, ValueRange operands);

private:
  /// Keeps apart what would be merged or become one kernel otherwise.
  Value apart(Value value) { return BarrierOp::create(b.builder, b.loc, value.getType(), value); }
  /// What the rank before has.
  Value passedOn(Value value);
  /// Whether the keys of that step are those of a rank before this one.
  Value areBefore(int64_t step);
  /// Row statistics where keys of that step are seen, else `hidden`.
  Value whereSeen(Value statistics, int64_t step, double hidden);
  /// One of two, by a condition for all elements.
  Value either(Value condition, Value yes, Value no);
  /// exp(statistics - all) of each row, for each element of a result of that shape.
  Value weight(Value statistics, Value all, ArrayRef<int64_t> shape);

  struct Result {
    Value output, lse; ///< in the statistics' type
  };
  Result merged(const Result &one, const Result &other);

  Result attentionOf(Value query, Value key, Value value, APFloat scale, bool isCausal);

  // Of parts in zig-zag.
  using Chunks = std::array<Value, 2>;
  Chunks chunksOf(Value value, int64_t dim);
  Result mergedChunks(AttentionOp op, const Result &all, const Chunks &query, Value key,
                      Value value, int64_t step);
  /// Of queries, keys and values.
  using Gradients = std::array<Value, 3>;
  Gradients gradientsOf(ArrayRef<Value> operands, APFloat scale, bool isCausal);
  Gradients gradientsOfChunks(AttentionGradOp op, ArrayRef<Value> operands, int64_t step);

  TensorBuilder b;
  const NamedMesh &mesh;
  dist::AxesAttr axes;
  int64_t count;
  bool causal, zigzag;
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
Value RingSteps::areBefore(int64_t step) {
  auto type = RankedTensorType::get({}, b.builder.getI64Type());
  Value position = dist::AxisIndexOp::create(b.builder, b.loc, type, mesh.name, axes);
  return b.compare(arith::CmpIPredicate::sge, position, step);
}

Value RingSteps::whereSeen(Value statistics, int64_t step, double hidden) {
  if (!causal || zigzag || step == 0)
    return statistics;
  return b.selectOr(b.broadcast(areBefore(step), {}, shapeOf(statistics)), statistics, hidden);
}

Value RingSteps::either(Value condition, Value yes, Value no) {
  return b.select(b.broadcast(condition, {}, shapeOf(yes)), yes, no);
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

RingSteps::Result RingSteps::attentionOf(Value query, Value key, Value value, APFloat scale,
                                         bool isCausal) {
  ArrayRef<int64_t> queries = shapeOf(query);
  auto type = cast<RankedTensorType>(query.getType())
                  .clone({queries[0], queries[1], queries[2], shapeOf(value)[3]});
  Type lseType = RankedTensorType::get({queries[0], queries[2], queries[1]},
                                       statisticsType(type.getElementType()));
  auto part = AttentionOp::create(b.builder, b.loc, type, lseType, query, key, value, Value(),
                                  scale, isCausal, IntegerAttr());
  // One kernel for all steps would hold the scores of all, and what they make.
  return {b.widen(part.getResult()), apart(part.getLse())};
}

RingSteps::Chunks RingSteps::chunksOf(Value value, int64_t dim) {
  int64_t size = shapeOf(value)[dim] / 2;
  return {sliceAlong(b.builder, b.loc, value, dim, 0, size),
          sliceAlong(b.builder, b.loc, value, dim, size, size)};
}

/// Adds what both chunks of the queries see of another rank's keys.
RingSteps::Result RingSteps::mergedChunks(AttentionOp op, const Result &all, const Chunks &query,
                                          Value key, Value value, int64_t step) {
  Chunks keys = chunksOf(key, 1), values = chunksOf(value, 1);
  Chunks outputs = chunksOf(all.output, 1), statistics = chunksOf(all.lse, 2);
  Value before = areBefore(step);
  Result middle = attentionOf(query[1], keys[0], values[0], op.getScale(), false);
  Result selected =
      attentionOf(either(before, query[0], query[1]), either(before, keys[0], keys[1]),
                  either(before, values[0], values[1]), op.getScale(), false);
  Value isBefore = b.broadcast(before, {}, shapeOf(selected.lse));
  Result first = {selected.output, b.selectOr(isBefore, selected.lse, -kInfinity)};
  Result second = {selected.output, b.selectOr(isBefore, -kInfinity, selected.lse)};
  first = merged({outputs[0], statistics[0]}, first);
  second = merged(merged({outputs[1], statistics[1]}, middle), second);
  return {joinAlong(b.builder, b.loc, {first.output, second.output}, 1),
          joinAlong(b.builder, b.loc, {first.lse, second.lse}, 2)};
}

SmallVector<Value> RingSteps::attention(AttentionOp op, ValueRange operands) {
  Value query = operands[0], key = operands[1], value = operands[2];
  Result all;
  for (int64_t step = 0; step < count; ++step) {
    Value nextKey, nextValue;
    if (step + 1 < count) { // on their way beside this step
      nextKey = passedOn(key);
      nextValue = passedOn(value);
    }
    if (zigzag && step > 0) {
      all = mergedChunks(op, all, chunksOf(query, 1), key, value, step);
    } else {
      Result result = attentionOf(query, key, value, op.getScale(), causal && step == 0);
      result.lse = whereSeen(result.lse, step, -kInfinity);
      all = step == 0 ? result : merged(all, result);
    }
    if (step > 0 && step + 1 < count)
      all = {apart(all.output), apart(all.lse)};
    key = nextKey;
    value = nextValue;
  }
  return {b.convert(all.output, getElementTypeOrSelf(query)), all.lse};
}

/// `operands`: those of the op.
RingSteps::Gradients RingSteps::gradientsOf(ArrayRef<Value> operands, APFloat scale,
                                            bool isCausal) {
  auto part = AttentionPartGradOp::create(b.builder, b.loc, operands[0].getType(),
                                          operands[1].getType(), operands[2].getType(), operands[0],
                                          operands[1], operands[2], operands[3], operands[4],
                                          operands[5], scale, isCausal, IntegerAttr());
  return {part.getQueryGrad(), part.getKeyGrad(), part.getValueGrad()};
}

/// Those of what both chunks of the queries see of another rank's keys.
RingSteps::Gradients RingSteps::gradientsOfChunks(AttentionGradOp op, ArrayRef<Value> operands,
                                                  int64_t step) {
  constexpr int64_t kKey = 1, kValue = 2, kLse = 4;
  Value before = areBefore(step);
  SmallVector<Value> middle, selected;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    Chunks chunks = chunksOf(operand, i == kLse ? 2 : 1);
    middle.push_back(i == kKey || i == kValue ? chunks[0] : chunks[1]);
    selected.push_back(either(before, chunks[0], chunks[1]));
  }
  Gradients ofMiddle = gradientsOf(middle, op.getScale(), false),
            ofSelected = gradientsOf(selected, op.getScale(), false), result;
  for (auto [i, gradient] : llvm::enumerate(ofSelected)) {
    Value isBefore = b.broadcast(before, {}, shapeOf(gradient));
    Chunks chunks = {b.selectOr(isBefore, gradient, 0.0), b.selectOr(isBefore, 0.0, gradient)};
    Value &alsoMiddle = chunks[i == 0 ? 1 : 0];
    alsoMiddle = b.add(ofMiddle[i], alsoMiddle);
    result[i] = joinAlong(b.builder, b.loc, {chunks[0], chunks[1]}, 1);
  }
  return result;
}

SmallVector<Value> RingSteps::gradients(AttentionGradOp op, ValueRange operands) {
  // Not what the forward pass passed on, which would have to be kept.
  Value key = apart(operands[1]), value = apart(operands[2]);
  Gradients own;
  Value queryGrad, keyGrad, valueGrad;
  for (int64_t step = 0; step < count; ++step) {
    Value nextKey, nextValue;
    if (step + 1 < count) {
      nextKey = passedOn(key);
      nextValue = passedOn(value);
    }
    SmallVector<Value> ofStep(operands);
    ofStep[1] = key;
    ofStep[2] = value;
    ofStep[4] = whereSeen(ofStep[4], step, kInfinity);
    Gradients part = zigzag && step > 0 ? gradientsOfChunks(op, ofStep, step)
                                        : gradientsOf(ofStep, op.getScale(), causal && step == 0);
    queryGrad = step == 0 ? part[0] : b.add(apart(queryGrad), part[0]);
    if (step == 0) {
      own = part;
    } else {
      keyGrad = passedOn(step == 1 ? part[1] : b.add(keyGrad, part[1]));
      valueGrad = passedOn(step == 1 ? part[2] : b.add(valueGrad, part[2]));
    }
    key = nextKey;
    value = nextValue;
  }
  return {queryGrad, b.add(own[1], keyGrad), b.add(own[2], valueGrad)};
}

FailureOr<SmallVector<Value>> buildRing(OpBuilder &builder, Operation *op, ValueRange operands,
                                        const NamedMesh &mesh, const sharding::AxisList &axes) {
  auto forward = dyn_cast<AttentionOp>(op);
  auto backward = dyn_cast<AttentionGradOp>(op);
  bool hasBias = (forward && forward.getBias()) || (backward && backward.getBias());
  if ((!forward && !backward) || hasBias)
    return op->emitOpError("has no steps in which tensors could go round the ranks");
  if (forward ? forward.getWindow() : backward.getWindow())
    return op->emitOpError("can't go round the ranks: it has a window, of which each step would "
                           "see another part");
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
