#include "Rules.h"
#include "Verify.h"

#include "dtc/Dialect/Graph/ConvWindow.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

static LogicalResult verifyWindow(Operation *op, const ConvWindow &window, int64_t space) {
  if (failed(verifyLength(op, window.strides, space, "strides")) ||
      failed(verifyLength(op, window.padLow, space, "low padding")) ||
      failed(verifyLength(op, window.padHigh, space, "high padding")) ||
      failed(verifyLength(op, window.dilations, space, "dilations")) ||
      failed(verifyEachAtLeast(op, window.strides, 1, "strides")) ||
      failed(verifyEachAtLeast(op, window.padLow, 0, "low padding")) ||
      failed(verifyEachAtLeast(op, window.padHigh, 0, "high padding")))
    return failure();
  return verifyEachAtLeast(op, window.dilations, 1, "dilations");
}

/// Checks that windows of `kernel` over `input` number `output`, per dimension
/// of space.
static LogicalResult verifySpace(Operation *op, const ConvWindow &window, ArrayRef<int64_t> input,
                                 ArrayRef<int64_t> kernel, ArrayRef<int64_t> output) {
  // Numbers beyond any real window, which could overflow below.
  constexpr int64_t kLimit = int64_t(1) << 30;
  for (size_t i = 0; i < input.size(); ++i) {
    for (int64_t value : {window.strides[i], window.padLow[i], window.padHigh[i],
                          window.dilations[i], input[i], kernel[i]})
      if (value > kLimit)
        return op->emitOpError() << "windows must have sizes up to " << kLimit << ": " << value;
    if (kernel[i] < 1)
      return op->emitOpError() << "kernel must be at least 1: " << kernel[i];
    int64_t extent = window.dilations[i] * (kernel[i] - 1) + 1;
    int64_t padded = input[i] + window.padLow[i] + window.padHigh[i];
    int64_t expected = padded < extent ? 0 : (padded - extent) / window.strides[i] + 1;
    if (output[i] != expected)
      return op->emitOpError() << "dimension " << i + 2 << " must have " << expected
                               << " windows: " << output[i];
  }
  return success();
}

//===-- convolutions ------------------------------------------------------===//

/// input[n,c,hw], weight[o,c/groups,kernel], output[n,o,hw'], in whichever of
/// them is the result.
static LogicalResult verifyConv(Operation *op, const ConvWindow &window, int64_t groups,
                                Value input, Value weight, Value output) {
  Value result = op->getResult(0), first = op->getOperand(0), second = op->getOperand(1);
  int64_t rank = shapeOf(input).size();
  if (rank < 3)
    return op->emitOpError() << "input must have the rank 3 or more: " << rank;
  if (failed(verifyFloat(op, first, "operand")) ||
      failed(verifySameElementType(op, second, first, "second operand")) ||
      failed(verifySameOrWider(op, result, first, "result")) ||
      failed(verifyRank(op, weight, rank, "weight")) ||
      failed(verifyRank(op, output, rank, "output")) ||
      failed(verifyWindow(op, window, rank - 2)))
    return failure();
  ArrayRef<int64_t> in = shapeOf(input), w = shapeOf(weight), out = shapeOf(output);
  if (groups < 1 || in[1] % groups != 0 || w[0] % groups != 0)
    return op->emitOpError() << "groups must divide " << in[1] << " input and " << w[0]
                             << " output channels: " << groups;
  if (w[1] != in[1] / groups)
    return op->emitOpError() << "weight must have " << in[1] / groups
                             << " input channels: " << w[1];
  if (out[0] != in[0] || out[1] != w[0])
    return op->emitOpError() << "output must have the batch " << in[0] << " and " << w[0]
                             << " channels: [" << out[0] << ", " << out[1] << "]";
  return verifySpace(op, window, in.drop_front(2), w.drop_front(2), out.drop_front(2));
}

LogicalResult ConvOp::verify() {
  return verifyConv(*this, ConvWindow::of(*this), getGroups(), getInput(), getWeight(),
                    getResult());
}
LogicalResult ConvInputGradOp::verify() {
  return verifyConv(*this, ConvWindow::of(*this), getGroups(), getResult(), getWeight(), getGrad());
}
LogicalResult ConvWeightGradOp::verify() {
  return verifyConvWeightGrad(*this, ConvWindow::of(*this), getGroups());
}
LogicalResult graph::verifyConvWeightGrad(Operation *op, const ConvWindow &window, int64_t groups) {
  return verifyConv(op, window, groups, op->getOperand(0), op->getResult(0), op->getOperand(1));
}

namespace {
/// Factors of input[n,(g c),hw], weight[(g o),c,kernel], output[n,(g o),hw'].
/// Groups are independent of each other; space stays whole.
class ConvRule {
public:
  enum Role : uint8_t { Input, Weight, Output };

  /// `reduced`: the factor that the op sums over, by name.
  ConvRule(Operation *op, UnitFactors units, Value input, Value weight, Value output,
           int64_t groups, char reduced)
      : rule(op, units), values{input, weight, output} {
    auto kind = [&](char name) {
      return name == reduced ? FactorKind::Reduction : FactorKind::Parallel;
    };
    n = rule.factor(shapeOf(input)[0], kind('n'));
    g = rule.factor(groups);
    c = rule.factor(shapeOf(weight)[1], kind('c'));
    o = rule.factor(shapeOf(weight)[0] / groups, kind('o'));
    for (int role = 0; role < 3; ++role)
      space[role] = rule.factors(shapeOf(values[role]).drop_front(2), FactorKind::Whole);
  }

  ShardingRule build(Role first, Role second, Role result) {
    append(&OpRule::operandCompound, 0, first);
    append(&OpRule::operandCompound, 1, second);
    append(&OpRule::resultCompound, 0, result);
    return rule.linear({0}).linear({1}).build();
  }

private:
  void append(OpRule &(OpRule::*add)(unsigned, ArrayRef<FactorId>), unsigned index, Role role) {
    SmallVector<FactorId> channels{g, role == Input ? c : o};
    if (role == Weight)
      (rule.*add)(index, channels);
    (rule.*add)(index, role == Weight ? ArrayRef(c) : ArrayRef(n));
    if (role != Weight)
      (rule.*add)(index, channels);
    for (FactorId id : space[role])
      (rule.*add)(index, id);
  }

  OpRule rule;
  Value values[3];
  FactorId n, g, c, o;
  SmallVector<FactorId> space[3];
};
} // namespace

ShardingRule ConvOp::buildShardingRule(UnitFactors units) {
  return ConvRule(*this, units, getInput(), getWeight(), getResult(), getGroups(), 'c')
      .build(ConvRule::Input, ConvRule::Weight, ConvRule::Output);
}
ShardingRule ConvInputGradOp::buildShardingRule(UnitFactors units) {
  return ConvRule(*this, units, getResult(), getWeight(), getGrad(), getGroups(), 'o')
      .build(ConvRule::Output, ConvRule::Weight, ConvRule::Input);
}
ShardingRule ConvWeightGradOp::buildShardingRule(UnitFactors units) {
  return ConvRule(*this, units, getInput(), getResult(), getGrad(), getGroups(), 'n')
      .build(ConvRule::Input, ConvRule::Output, ConvRule::Weight);
}

/// A clone whose `groups` are those of the shard. `weight` and `input` have
/// their local shapes; channels are split within a group only once every group
/// stands alone, so the quotient is exact.
template <typename Op>
static FailureOr<SmallVector<Value>> buildLocalConv(Op op, OpBuilder &builder,
                                                    ValueRange operands, TypeRange resultTypes,
                                                    ArrayRef<int64_t> input,
                                                    ArrayRef<int64_t> weight) {
  if (weight[1] == 0 || input[1] % weight[1] != 0)
    return op.emitOpError() << "cannot be split into groups of " << weight[1]
                            << " channels: " << input[1];
  SmallVector<Value> results = cloneLocal(op, builder, operands, resultTypes);
  results[0].getDefiningOp<Op>().setGroups(input[1] / weight[1]);
  return results;
}

static ArrayRef<int64_t> typeShape(Type type) { return cast<RankedTensorType>(type).getShape(); }

FailureOr<SmallVector<Value>> ConvOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                 TypeRange resultTypes, const LocalContext &) {
  return buildLocalConv(*this, builder, operands, resultTypes, shapeOf(operands[0]),
                        shapeOf(operands[1]));
}
FailureOr<SmallVector<Value>> ConvInputGradOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                          TypeRange resultTypes,
                                                          const LocalContext &) {
  return buildLocalConv(*this, builder, operands, resultTypes, typeShape(resultTypes[0]),
                        shapeOf(operands[1]));
}
FailureOr<SmallVector<Value>> ConvWeightGradOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                           TypeRange resultTypes,
                                                           const LocalContext &) {
  return buildLocalConv(*this, builder, operands, resultTypes, shapeOf(operands[0]),
                        typeShape(resultTypes[0]));
}

/// Every output element is a sum over a weight's elements but the first dimension.
static OpCost convCost(Value weight, Value output) {
  double flops = 2;
  for (int64_t size : shapeOf(output))
    flops *= size;
  for (int64_t size : shapeOf(weight).drop_front())
    flops *= size;
  return {.kind = OpKind::Contraction, .flops = flops};
}

OpCost ConvOp::getCost() { return convCost(getWeight(), getResult()); }
OpCost ConvInputGradOp::getCost() { return convCost(getWeight(), getGrad()); }
OpCost ConvWeightGradOp::getCost() { return convCost(getResult(), getGrad()); }

//===-- pooling -----------------------------------------------------------===//

static LogicalResult verifyPool(Operation *op, const ConvWindow &window, ArrayRef<int64_t> kernel,
                                Value input, Value output) {
  int64_t rank = shapeOf(input).size();
  if (rank < 3)
    return op->emitOpError() << "input must have the rank 3 or more: " << rank;
  if (failed(verifyFloat(op, input, "input")) ||
      failed(verifySameElementType(op, output, input, "output")) ||
      failed(verifyRank(op, output, rank, "output")) ||
      failed(verifyLength(op, kernel, rank - 2, "kernel")) ||
      failed(verifyWindow(op, window, rank - 2)))
    return failure();
  ArrayRef<int64_t> in = shapeOf(input), out = shapeOf(output);
  if (in[0] != out[0] || in[1] != out[1])
    return op->emitOpError() << "output must have the batch " << in[0] << " and " << in[1]
                             << " channels: [" << out[0] << ", " << out[1] << "]";
  return verifySpace(op, window, in.drop_front(2), kernel, out.drop_front(2));
}

LogicalResult MaxPoolOp::verify() {
  return verifyPool(*this, ConvWindow::of(*this), getKernel(), getInput(), getResult());
}
LogicalResult MaxPoolGradOp::verify() {
  if (getResult().getType() != getInput().getType())
    return emitOpError() << "result must have the type " << getInput().getType() << ": "
                         << getResult().getType();
  return verifyPool(*this, ConvWindow::of(*this), getKernel(), getInput(), getGrad());
}

ShardingRule MaxPoolOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> lead = rule.factors(shapeOf(getInput()).take_front(2));
  auto space = [&](Value value) {
    return rule.factors(shapeOf(value).drop_front(2), FactorKind::Whole);
  };
  return rule.operand(0, lead).operand(0, space(getInput())).result(0, lead)
      .result(0, space(getResult())).build();
}

ShardingRule MaxPoolGradOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> lead = rule.factors(shapeOf(getInput()).take_front(2));
  SmallVector<FactorId> in =
      rule.factors(shapeOf(getInput()).drop_front(2), FactorKind::Whole);
  SmallVector<FactorId> out =
      rule.factors(shapeOf(getGrad()).drop_front(2), FactorKind::Whole);
  return rule.operand(0, lead).operand(0, in).operand(1, lead).operand(1, out).result(0, lead)
      .result(0, in).linear({1}).build();
}

FailureOr<SmallVector<Value>> MaxPoolOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                    TypeRange resultTypes, const LocalContext &) {
  return cloneLocal(*this, builder, operands, resultTypes);
}
FailureOr<SmallVector<Value>> MaxPoolGradOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                        TypeRange resultTypes,
                                                        const LocalContext &) {
  return cloneLocal(*this, builder, operands, resultTypes);
}

OpCost MaxPoolOp::getCost() { return {OpKind::Reduction}; }
OpCost MaxPoolGradOp::getCost() { return {OpKind::Reduction}; }
Reach MaxPoolGradOp::getReach(unsigned operand) {
  return operand == 0 ? Reach::LookedUp : Reach::Moved;
}
