// CausalConvWithState and LinearAttention: what a position gets from those before it, which an
// earlier call may have left as a state.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Unsupported.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

/// The sum over the kernel of what lies behind each position, each channel by itself.
static Value convolveBehind(NodeConverter &node, Value padded, int64_t kernel, int64_t length) {
  TensorBuilder b(node.emit, node.emit.getLoc());
  const Shape shape(tensorType(padded).getShape());
  const Shape all = {shape[0], shape[1], length};
  Value weight = node.value(1), sum;
  for (int64_t i = 0; i < kernel; ++i) {
    Value factor = reshape(node.emit, sliceDim(node.emit, weight, 2, i, 1), {shape[1]});
    Value term = b.mul(sliceDim(node.emit, padded, 2, i, length),
                       broadcastAlong(node.emit, factor, all, {1}));
    sum = sum ? b.add(sum, term) : term;
  }
  return node.has(2) ? b.add(sum, broadcastAlong(node.emit, node.value(2), all, {1})) : sum;
}

static LogicalResult convertCausalConv(NodeConverter &node) {
  Emitter &emit = node.emit;
  const Shape x = node.input(0).shape(), weight = node.input(1).shape();
  const std::string activation = node.attrString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return node.error() << "has an unknown activation: " << activation;
  if (x.size() != 3 || weight.size() != 3 || weight[0] != x[1] || weight[1] != 1 ||
      !isa<FloatType>(node.input(0).element()) ||
      (node.has(2) && node.input(2).shape() != Shape{x[1]}))
    return node.error() << "operands of shapes or types that do not fit";
  const int64_t kernel = weight[2], behind = kernel - 1;
  if (node.has(3) && node.input(3).shape() != Shape{x[0], x[1], behind})
    return node.error() << "a state of a shape that does not fit";
  if (node.hasOutput(1) && behind == 0)
    return unsupported(node.error()) << "a state without elements is not supported";
  if (failed(node.chargeNodes(4 * kernel)) || failed(node.checkShape({x[0], x[1], x[2] + behind})))
    return failure();
  Value padded = node.value(0);
  if (node.has(3) && behind > 0) {
    auto type = tensorType(padded).clone({x[0], x[1], x[2] + behind});
    padded = graph::ConcatOp::create(emit, type, ValueRange{node.value(3), padded}, 2);
  } else if (behind > 0) {
    padded = pad(emit, padded, {0, 0, behind}, {0, 0, 0}, 0);
  }
  TensorBuilder b(emit, emit.getLoc());
  Value result = convolveBehind(node, padded, kernel, x[2]);
  if (activation != "none") {
    Value wide = b.widen(result);
    Value gate = b.reciprocal(b.offset(b.unary<math::ExpOp>(b.negate(wide)), 1));
    result = b.convert(b.mul(wide, gate), elementOf(result));
  }
  if (node.hasOutput(1) && failed(node.define(1, Tensor(sliceDim(emit, padded, 2, x[2], behind)))))
    return failure();
  return node.define(result);
}

namespace {
/// The recurrence of linear attention over positions, on a state of [b,heads,key,value].
class LinearAttention {
public:
  explicit LinearAttention(NodeConverter &node)
      : node(node), emit(node.emit), b(node.emit, node.emit.getLoc()) {}

  LogicalResult run();

private:
  LogicalResult check();
  /// One position of an input of [b,t,heads*size] as [b,heads,size], in the precision of states.
  Value at(int input, int64_t position, int64_t count, int64_t size);
  void decay(int64_t position);
  Value correct(int64_t position, Value key, Value value);
  Value read(int64_t position);
  Value spread(Value value, ArrayRef<int64_t> dims) {
    return broadcastAlong(emit, value, {batch, heads, keys, values}, dims);
  }

  NodeConverter &node;
  Emitter &emit;
  TensorBuilder b;
  int64_t batch = 0, length = 0, queries = 0, heads = 0, keys = 0, values = 0;
  bool gated = false, corrected = false;
  Value state;
};
} // namespace

LogicalResult LinearAttention::check() {
  const std::string rule = node.attrString("update_rule", "gated_delta");
  gated = rule == "gated" || rule == "gated_delta";
  corrected = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrected && rule != "linear")
    return node.error() << "has an unknown update_rule: " << rule;
  if (gated != node.has(4) || corrected != node.has(5))
    return node.error() << "takes decay and beta where its update_rule uses them: " << rule;
  const Shape q = node.input(0).shape(), k = node.input(1).shape(), v = node.input(2).shape();
  queries = node.attrInt("q_num_heads", 0), heads = node.attrInt("kv_num_heads", 0);
  if (q.size() != 3 || k.size() != 3 || v.size() != 3 || queries < 1 || heads < 1 ||
      queries % heads != 0 || q[2] % queries != 0 || v[2] % heads != 0 ||
      k != Shape{q[0], q[1], q[2] / queries * heads} || v[0] != q[0] || v[1] != q[1] ||
      !isa<FloatType>(node.input(0).element()))
    return node.error() << "operands of shapes or types that do not fit";
  batch = q[0], length = q[1], keys = q[2] / queries, values = v[2] / heads;
  if (node.has(3) && node.input(3).shape() != Shape{batch, heads, keys, values})
    return node.error() << "a state of a shape that does not fit";
  auto isEach = [&](int input, int64_t one, int64_t other) {
    const Shape shape = node.input(input).shape();
    return shape == Shape{batch, length, one} || shape == Shape{batch, length, other};
  };
  if ((gated && !isEach(4, heads, heads * keys)) || (corrected && !isEach(5, heads, 1)))
    return node.error() << "decay or beta of a shape that does not fit";
  constexpr int64_t kOpsOfPosition = 32;
  if (failed(node.checkShape({batch, queries, keys, values})))
    return failure();
  return node.chargeNodes(length > kMaxEvaluated ? kMaxEvaluated * kOpsOfPosition
                                                 : length * kOpsOfPosition);
}

Value LinearAttention::at(int input, int64_t position, int64_t count, int64_t size) {
  Value part = sliceDim(emit, node.value(input), 1, position, 1);
  return b.widen(reshape(emit, part, {batch, count, size}));
}

void LinearAttention::decay(int64_t position) {
  const int64_t size = node.input(4).shape()[2] / heads;
  Value factor = b.unary<math::ExpOp>(at(4, position, heads, size));
  factor = size == keys ? spread(factor, {0, 1, 2})
                        : spread(reshape(emit, factor, {batch, heads}), {0, 1});
  state = b.mul(state, factor);
}

/// What the state lacks of the value that it has for the key.
Value LinearAttention::correct(int64_t position, Value key, Value value) {
  Value known = contract(emit, state, {0, 1, 2, 3}, key, {0, 1, 2}, {0, 1, 3});
  const int64_t count = node.input(5).shape()[2];
  const Shape shape = {batch, heads, values};
  Value rate = at(5, position, count, 1);
  rate = count == heads ? broadcastAlong(emit, reshape(emit, rate, {batch, heads}), shape, {0, 1})
                        : broadcastAlong(emit, reshape(emit, rate, {batch}), shape, {0});
  return b.mul(rate, b.sub(value, known));
}

/// [b,1,queries*values]
Value LinearAttention::read(int64_t position) {
  const int64_t shared = queries / heads;
  Value query = reshape(emit, at(0, position, queries, keys), {batch, heads, shared, keys});
  Value found = contract(emit, query, {0, 1, 4, 2}, state, {0, 1, 2, 3}, {0, 1, 4, 3});
  return reshape(emit, found, {batch, 1, queries * values});
}

LogicalResult LinearAttention::run() {
  if (failed(check()))
    return failure();
  const Type element = node.input(0).element();
  const Type wide = graph::statisticsType(element);
  const Type stored = node.has(3) ? node.input(3).element() : element;
  state = node.has(3) ? b.convert(node.value(3), wide)
                      : b.constant(RankedTensorType::get({batch, heads, keys, values}, wide), 0);
  SmallVector<Value> parts;
  for (int64_t position = 0; position < length; ++position) {
    Value key = at(1, position, heads, keys), value = at(2, position, heads, values);
    if (gated)
      decay(position);
    if (corrected)
      value = correct(position, key, value);
    state = b.add(state, b.mul(spread(key, {0, 1, 2}), spread(value, {0, 1, 3})));
    parts.push_back(read(position));
  }
  const double given = node.attrFloat("scale", 0);
  auto type = RankedTensorType::get({batch, length, queries * values}, wide);
  Value all =
      parts.size() == 1 ? parts[0] : graph::ConcatOp::create(emit, type, parts, 1).getResult();
  all = b.scale(all, given != 0 ? given : 1 / std::sqrt(double(keys)));
  if (node.hasOutput(1) && failed(node.define(1, Tensor(b.convert(state, stored)))))
    return failure();
  return node.define(b.convert(all, element));
}

static LogicalResult convertLinearAttention(NodeConverter &node) {
  return LinearAttention(node).run();
}

void addStateConverters(ConverterTable &table) {
  table["CausalConvWithState"] = {convertCausalConv, 2};
  table["LinearAttention"] = {convertLinearAttention, 3};
}

} // namespace dtc::import
