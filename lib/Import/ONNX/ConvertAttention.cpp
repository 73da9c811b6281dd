// The Attention and RotaryEmbedding operators of opset 23 and later.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Attention.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

/// [b,heads,s,e], or [b,s,heads*e], as [b,s,heads,e]; null where it is neither.
static Value byPosition(NodeConverter &node, int index, int64_t heads) {
  Value value = node.value(index);
  const Shape shape(tensorType(value).getShape());
  if (shape.size() == 4)
    return transpose(node.emit, value, {0, 2, 1, 3});
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    return {};
  return reshape(node.emit, value, {shape[0], shape[1], heads, shape[2] / heads});
}

/// Later opsets give the operator further attributes that change its result.
static LogicalResult checkAttributes(NodeConverter &node) {
  for (const auto &attribute : node.node.attribute())
    if (!llvm::is_contained({"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode",
                             "scale", "softcap", "softmax_precision", "left_window_size",
                             "right_window_size"},
                            StringRef(attribute.name())))
      return unsupported(node.error()) << "has an unsupported attribute: " << attribute.name();
  return success();
}

namespace {
enum Input { kMask = 3, kPastKey = 4, kPastValue = 5, kLengths = 6 };
enum Output { kPresentKey = 1, kPresentValue = 2, kProducts = 3 };

/// Which keys the node lets a query see. Queries are numbered on from the keys that came before.
class Visibility {
public:
  /// `scores`: [batch, head, query, key]; `past`: keys that came before.
  Visibility(NodeConverter &node, Shape scores, int64_t past)
      : node(node), emit(node.emit), b(node.emit, node.emit.getLoc()), scores(std::move(scores)),
        past(past) {}

  /// Whether dtc.attention's own forms, a mask and causality from the first key on, are enough.
  bool isPlain() const {
    return left() < 0 && right() < 0 && !node.has(kLengths) &&
           (!causal() || (past == 0 && scores[2] == scores[3])) &&
           (!node.has(kMask) || node.input(kMask).shape().back() == scores[3]);
  }
  bool causal() const { return node.attrInt("is_causal", 0); }
  /// What is added to the scores; null where all is seen.
  FailureOr<Value> bias(Type element);

private:
  int64_t left() const { return node.attrInt("left_window_size", -1); }
  int64_t right() const { return node.attrInt("right_window_size", -1); }
  void require(Value condition) {
    seen = seen ? Value(arith::AndIOp::create(emit, seen, condition)) : condition;
  }
  void seeByPlace();
  FailureOr<Value> mask();

  NodeConverter &node;
  Emitter &emit;
  graph::TensorBuilder b;
  Shape scores;
  int64_t past;
  Value seen; ///< of the type i1
};
} // namespace

void Visibility::seeByPlace() {
  const Type index = emit.getI64Type();
  Value query = b.iota(index, scores, 2), key = b.iota(index, scores, 3), lengths;
  auto plus = [&](Value value, int64_t term) {
    return Value(arith::AddIOp::create(emit, value, b.integer(value.getType(), term)));
  };
  if (node.has(kLengths)) {
    lengths = broadcastAlong(emit, castTo(emit, node.value(kLengths), index), scores, {0});
    query = arith::AddIOp::create(emit, query, plus(lengths, -scores[2]));
    require(b.compare(arith::CmpIPredicate::slt, key, lengths));
  }
  query = plus(query, past);
  if (causal())
    require(b.compare(arith::CmpIPredicate::sle, key, query));
  if (left() >= 0)
    require(b.compare(arith::CmpIPredicate::sge, key, plus(query, -left())));
  if (right() >= 0)
    require(b.compare(arith::CmpIPredicate::sle, key, plus(query, right())));
}

/// The mask in the shape of the scores. It may be of fewer keys; the others aren't seen.
FailureOr<Value> Visibility::mask() {
  Value mask = node.value(kMask);
  Shape shape(tensorType(mask).getShape());
  const bool truths = elementOf(mask).isInteger(1);
  if (shape.empty() || shape.back() > scores[3])
    return LogicalResult(node.error() << "has a mask of a shape that does not fit");
  if (int64_t missing = scores[3] - shape.back(); missing > 0 && shape.back() != 1) {
    Shape low(shape.size(), 0), high = low;
    high.back() = missing;
    mask = truths ? castTo(emit, pad(emit, castTo(emit, mask, emit.getF32Type()), low, high, 0),
                           emit.getI1Type())
                  : pad(emit, mask, low, high, -INFINITY);
    shape.back() = scores[3];
  }
  auto whole = broadcastShapes({scores, shape});
  if (failed(whole) || *whole != scores)
    return LogicalResult(node.error() << "has a mask of a shape that does not fit");
  mask = broadcastTo(emit, mask, scores);
  if (truths)
    require(mask);
  return truths ? Value() : mask;
}

FailureOr<Value> Visibility::bias(Type element) {
  if (failed(node.checkShape(scores)))
    return failure();
  if (left() < -1 || right() < -1)
    return LogicalResult(node.error() << "has a bad window");
  if (node.has(kLengths) && node.input(kLengths).shape() != Shape{scores[0]})
    return LogicalResult(node.error() << "needs a length of each sample");
  seeByPlace();
  Value term;
  if (node.has(kMask)) {
    auto masked = mask();
    if (failed(masked))
      return failure();
    term = *masked;
  }
  if (!seen)
    return term;
  return term
             ? b.selectOr(seen, term, -INFINITY)
             : b.selectOr(seen, 0.0, b.constant(RankedTensorType::get(scores, element), -INFINITY));
}

/// The keys or values that came before, [b,heads,s,e], and then the new ones.
static FailureOr<Value> withPast(NodeConverter &node, Value fresh, int index) {
  if (!node.has(index))
    return fresh;
  Shape shape(tensorType(fresh).getShape()), before = node.input(index).shape();
  if (before.size() != 4 || node.input(index).element() != elementOf(fresh) ||
      Shape{before[0], before[1], before[3]} != Shape{shape[0], shape[2], shape[3]})
    return LogicalResult(node.error() << "past keys of a shape or type that does not fit");
  shape[1] += before[2];
  if (failed(node.checkShape(shape)))
    return failure();
  Value past = transpose(node.emit, node.value(index), {0, 2, 1, 3});
  return graph::ConcatOp::create(node.emit, tensorType(fresh).clone(shape), ValueRange{past, fresh},
                                 1)
      .getResult();
}

static FailureOr<AttentionOperands> readOperands(NodeConverter &node) {
  AttentionOperands operands;
  operands.query = byPosition(node, 0, node.attrInt("q_num_heads", 0));
  operands.key = byPosition(node, 1, node.attrInt("kv_num_heads", 0));
  operands.value = byPosition(node, 2, node.attrInt("kv_num_heads", 0));
  if (!operands.query || !operands.key || !operands.value)
    return LogicalResult(node.error() << "operands of unexpected ranks");
  const auto *scale = node.attribute("scale");
  if (scale && scale->f() != 0)
    operands.scale = scale->f();
  if (node.has(kPastKey) != node.has(kPastValue) || (node.has(kPastKey) && node.has(kLengths)))
    return LogicalResult(node.error() << "takes past keys with past values, and without lengths");
  auto key = withPast(node, operands.key, kPastKey),
       value = withPast(node, operands.value, kPastValue);
  if (failed(key) || failed(value))
    return failure();
  operands.key = *key, operands.value = *value;
  auto qs = graph::shapeOf(operands.query), ks = graph::shapeOf(*key), vs = graph::shapeOf(*value);
  if (qs[0] != ks[0] || qs[3] != ks[3] || ks.take_front(3) != vs.take_front(3) || ks[2] == 0 ||
      qs[2] % ks[2] != 0)
    return LogicalResult(node.error() << "operands of shapes that do not fit");
  return operands;
}

/// The scores at the stage that the node asks for.
static LogicalResult defineProducts(NodeConverter &node, const SpelledAttention &spelled) {
  const int64_t mode = node.attrInt("qk_matmul_output_mode", 0);
  const Value stages[] = {spelled.products, spelled.capped, spelled.biased, spelled.probabilities};
  if (mode < 0 || mode > 3)
    return node.error() << "has an unknown qk_matmul_output_mode: " << mode;
  return node.define(kProducts, Tensor(stages[mode]));
}

/// The result as [b,s,heads,e].
static FailureOr<Value> attend(NodeConverter &node, AttentionOperands operands) {
  auto qs = graph::shapeOf(operands.query), ks = graph::shapeOf(operands.key);
  const int64_t past = node.has(kPastKey) ? node.input(kPastKey).shape()[2] : 0;
  Visibility visibility(node, {qs[0], qs[2], qs[1], ks[1]}, past);
  const double softcap = node.attrFloat("softcap", 0);
  const bool isSpelled = softcap != 0 || node.hasOutput(kProducts);
  if (visibility.isPlain() && !isSpelled) {
    operands.mask = node.has(kMask) ? &node.input(kMask) : nullptr;
    operands.causal = visibility.causal();
    return attention(node, operands);
  }
  auto bias = visibility.bias(elementOf(operands.query));
  if (failed(bias))
    return failure();
  if (!isSpelled) {
    const Tensor mask(*bias);
    operands.mask = *bias ? &mask : nullptr;
    return attention(node, operands);
  }
  if (!(softcap >= 0))
    return LogicalResult(node.error() << "has a bad softcap: " << softcap);
  auto spelled = spellOutAttention(node, operands, *bias, softcap, /*guarded=*/true);
  if (failed(spelled) || (node.hasOutput(kProducts) && failed(defineProducts(node, *spelled))))
    return failure();
  return spelled->result;
}

static LogicalResult convertAttention(NodeConverter &node) {
  Emitter &emit = node.emit;
  if (failed(checkAttributes(node)))
    return failure();
  auto operands = readOperands(node);
  if (failed(operands))
    return failure();
  auto result = attend(node, *operands);
  if (failed(result))
    return failure();
  for (auto [output, present] :
       {std::pair{kPresentKey, operands->key}, {kPresentValue, operands->value}})
    if (node.hasOutput(output) &&
        failed(node.define(output, Tensor(transpose(emit, present, {0, 2, 1, 3})))))
      return failure();
  if (node.input(0).rank() == 4)
    return node.define(transpose(emit, *result, {0, 2, 1, 3}));
  auto shape = graph::shapeOf(*result);
  return node.define(reshape(emit, *result, {shape[0], shape[1], shape[2] * shape[3]}));
}

/// cos or sin per position as [b,s,1 or absent,...] broadcast to the halves [b,s,heads,half].
static Value rotation(NodeConverter &node, int cache, ArrayRef<int64_t> half) {
  Emitter &emit = node.emit;
  Value table = node.value(cache);
  if (node.has(3))
    table = gather(emit, table, node.value(3), 0);
  if (tensorType(table).getShape() != ArrayRef<int64_t>{half[0], half[1], half[3]})
    return {};
  return broadcastAlong(emit, table, half, {0, 1, 3});
}

/// The elements at even (0) or odd (1) places of the last of four dimensions.
static Value everySecond(Emitter &emit, Value value, int64_t first) {
  const int64_t size = tensorType(value).getDimSize(3);
  return sliceDim(emit, value, 3, first, size / 2, 2);
}

/// Both halves, their elements in turn.
static Value interleave(Emitter &emit, Value first, Value second) {
  Shape shape(tensorType(first).getShape()), single = shape;
  single.push_back(1);
  Shape pair = single;
  pair.back() = 2;
  shape.back() *= 2;
  SmallVector<Value> parts = {reshape(emit, first, single), reshape(emit, second, single)};
  auto type = tensorType(first).clone(pair);
  return reshape(emit, graph::ConcatOp::create(emit, type, parts, 4), shape);
}

static LogicalResult convertRotaryEmbedding(NodeConverter &node) {
  Emitter &emit = node.emit;
  Value x = byPosition(node, 0, node.attrInt("num_heads", 0));
  if (!x || (node.has(3) && (node.input(1).rank() != 2 || node.input(2).rank() != 2)))
    return node.error() << "operands of unexpected ranks";
  const bool interleaved = node.attrInt("interleaved", 0);
  const Shape shape(tensorType(x).getShape());
  int64_t rotated = node.attrInt("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? shape[3] : rotated;
  if (rotated % 2 != 0 || rotated < 0 || rotated > shape[3])
    return node.error() << "has a bad rotary_embedding_dim: " << rotated;
  Value turned = sliceDim(emit, x, 3, 0, rotated);
  Value first = interleaved ? everySecond(emit, turned, 0) : sliceDim(emit, x, 3, 0, rotated / 2);
  Value second =
      interleaved ? everySecond(emit, turned, 1) : sliceDim(emit, x, 3, rotated / 2, rotated / 2);
  auto half = graph::shapeOf(first);
  Value cos = rotation(node, 1, half), sin = rotation(node, 2, half);
  if (!cos || !sin)
    return node.error() << "tables of shapes that do not fit";
  auto mul = [&](Value a, Value b) { return arith::MulFOp::create(emit, a, b).getResult(); };
  SmallVector<Value> parts = {
      arith::SubFOp::create(emit, mul(cos, first), mul(sin, second)),
      arith::AddFOp::create(emit, mul(sin, first), mul(cos, second))};
  if (interleaved)
    parts = {interleave(emit, parts[0], parts[1])};
  if (rotated < shape[3])
    parts.push_back(sliceDim(emit, x, 3, rotated, shape[3] - rotated));
  Value result = graph::ConcatOp::create(emit, x.getType(), parts, 3);
  if (node.input(0).rank() == 4)
    return node.define(transpose(emit, result, {0, 2, 1, 3}));
  return node.define(reshape(emit, result, node.input(0).shape()));
}

void addAttentionConverters(ConverterTable &table) {
  table["Attention"] = {convertAttention, 3};
  table["RotaryEmbedding"] = {convertRotaryEmbedding, 3};
}

} // namespace dtc::import
