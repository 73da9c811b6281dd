// Activations that are composed of others.
//
// Gradients pass through both branches of a select. So what stands for the branch that isn't taken
// is computed of an operand at which it is finite: 0 times infinity would be no number.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Lookup.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Build/Selection.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

static TensorBuilder builderOf(NodeConverter &node) { return {node.emit, node.emit.getLoc()}; }

/// Of a float operand; the diagnostic of one that isn't.
static LogicalResult checkFloat(NodeConverter &node) {
  if (isa<FloatType>(node.input(0).element()))
    return success();
  return unsupported(node.error()) << "is not supported on " << node.input(0).element();
}

/// x where x > 0, else alpha * (exp(x / divisor) - 1).
static Value exponentialBelow(TensorBuilder &b, Value x, double alpha, double divisor) {
  Value above = b.compare(arith::CmpFPredicate::OGT, x, 0.0);
  Value below = b.selectOr(above, 0.0, x);
  below = b.unary<math::ExpM1Op>(divisor == 1 ? below : b.scale(below, 1 / divisor));
  return b.select(above, x, b.scale(below, alpha));
}

static LogicalResult convertElu(NodeConverter &node) {
  TensorBuilder b = builderOf(node);
  Value x = node.value(0);
  if (node.op() == "Selu") {
    Value below = exponentialBelow(b, x, node.attrFloat("alpha", 1.67326319217681884765625), 1);
    return node.define(b.scale(below, node.attrFloat("gamma", 1.05070102214813232421875)));
  }
  const double alpha = node.attrFloat("alpha", 1);
  if (alpha == 0)
    return node.error() << "has a bad alpha: 0";
  return node.define(exponentialBelow(b, x, alpha, alpha));
}

static LogicalResult convertSoftsign(NodeConverter &node) {
  TensorBuilder b = builderOf(node);
  Value x = node.value(0);
  return node.define(b.div(x, b.offset(b.unary<math::AbsFOp>(x), 1)));
}

static LogicalResult convertShrink(NodeConverter &node) {
  TensorBuilder b = builderOf(node);
  const double bias = node.attrFloat("bias", 0), lambda = node.attrFloat("lambd", 0.5);
  Value x = node.value(0);
  Value below = b.compare(arith::CmpFPredicate::OLT, x, -lambda);
  Value above = b.compare(arith::CmpFPredicate::OGT, x, lambda);
  Value rest = b.selectOr(above, b.offset(x, -bias), 0.0);
  return node.define(b.select(below, b.offset(x, bias), rest));
}

static LogicalResult convertThresholdedRelu(NodeConverter &node) {
  TensorBuilder b = builderOf(node);
  Value x = node.value(0);
  Value above = b.compare(arith::CmpFPredicate::OGT, x, node.attrFloat("alpha", 1));
  return node.define(b.selectOr(above, x, 0.0));
}

/// x * sigmoid(alpha * x).
static FailureOr<Tensor> swish(NodeConverter &node, const Tensor &x, double alpha) {
  if (alpha == 1)
    return activation(node, graph::Activation::Silu, x);
  TensorBuilder b = builderOf(node);
  Value value = node.value(x);
  auto gate = activation(node, graph::Activation::Sigmoid, Tensor(b.scale(value, alpha)));
  return failed(gate) ? gate : FailureOr<Tensor>(Tensor(b.mul(value, gate->value)));
}

static LogicalResult convertSwish(NodeConverter &node) {
  return node.define(swish(node, node.input(0), node.attrFloat("alpha", 1)));
}

/// Before opset 13 the dimensions from `axis` on, 1 by default, count as one.
static LogicalResult convertAlongAxis(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  const bool flattens = node.opset < 13;
  int64_t axis = node.attrInt("axis", flattens ? 1 : -1);
  if (axis < 0)
    axis += shape.size();
  if (axis < 0 || axis > int64_t(shape.size()) || (!flattens && axis == int64_t(shape.size())))
    return node.error() << "axis out of range for rank " << shape.size() << ": "
                        << node.attrInt("axis", 1);
  Tensor x = node.input(0);
  if (flattens) {
    x = reshapeTensor(
        node, x,
        {product(ArrayRef(shape).take_front(axis)), product(ArrayRef(shape).drop_front(axis))});
    axis = 1;
  }
  if (node.op() != "Hardmax") {
    Value value = node.value(x);
    value = node.op() == "Softmax" ? softmax(node.emit, value, axis)
                                   : logSoftmax(node.emit, value, axis);
    return node.define(reshape(node.emit, value, shape));
  }
  auto first = argExtreme(node, x, axis, {/*isMax=*/true, /*last=*/false, /*keepDims=*/false});
  if (failed(first))
    return failure();
  auto hot = oneHot(node, *first, axis, x.shape()[axis], {x.element(), 0, 1});
  return failed(hot) ? failure() : node.define(reshapeTensor(node, *hot, shape));
}

static LogicalResult convertSwiGlu(NodeConverter &node) {
  auto gate = swish(node, node.input(0), node.attrFloat("alpha", 1));
  if (failed(gate))
    return failure();
  if (node.input(1).shape() != node.input(0).shape())
    return node.error() << "operands of different shapes";
  return node.define(binary(node, "Mul", *gate, node.input(1)));
}

static LogicalResult convertMean(NodeConverter &node) {
  Tensor sum = node.input(0);
  for (int i = 1; i < node.numInputs(); ++i) {
    auto next = binary(node, "Add", sum, node.input(i));
    if (failed(next) || failed(node.chargeNodes(1)) || failed(node.chargeFolded(*next)))
      return failure();
    sum = *next;
  }
  Tensor count(HostTensor::splat(sum.element(), {}, node.numInputs()));
  return node.define(binary(node, "Div", sum, count));
}

/// A converter that takes floats only.
template <Converter convert> static LogicalResult onFloats(NodeConverter &node) {
  return failed(checkFloat(node)) ? failure() : convert(node);
}

void addActivationConverters(ConverterTable &table) {
  table["Celu"] = onFloats<convertElu>;
  table["Selu"] = onFloats<convertElu>;
  table["Softsign"] = onFloats<convertSoftsign>;
  table["Shrink"] = onFloats<convertShrink>;
  table["ThresholdedRelu"] = onFloats<convertThresholdedRelu>;
  table["Swish"] = onFloats<convertSwish>;
  table["Softmax"] = onFloats<convertAlongAxis>;
  table["LogSoftmax"] = onFloats<convertAlongAxis>;
  table["Hardmax"] = onFloats<convertAlongAxis>;
  table["SwiGLU"] = {onFloats<convertSwiGlu>, 2};
  table["Mean"] = Operator(onFloats<convertMean>).listsFrom(0);
}

} // namespace dtc::import
