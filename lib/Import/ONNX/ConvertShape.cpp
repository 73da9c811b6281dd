// Operators that make tensors out of shapes and attributes.
#include "ExportHint.h"
#include "GraphBuilder.h"
#include "Tensors.h"
#include "dtc/Import/Build/Dropout.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Sequences.h"
#include "dtc/Import/Build/StopGradient.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

/// PyTorch's newer exporter writes `detach` as an Identity and notes the call at the node.
static LogicalResult convertIdentity(NodeConverter &node) {
  const bool isDetach = StringRef(metadata(node.node.metadata_props(), "pkg.torch.onnx.fx_node"))
                            .contains("torch.ops.aten.detach.");
  return node.define(isDetach ? stopGradient(node, node.input(0)) : node.input(0));
}

/// In eval mode nothing is dropped, and the mask keeps all.
static LogicalResult keepAll(NodeConverter &node) {
  if (failed(node.define(
          1, Tensor(HostTensor::splat(node.emit.getI1Type(), node.input(0).shape(), true)))))
    return failure();
  return node.define(node.input(0));
}

static LogicalResult convertDropout(NodeConverter &node) {
  if (!node.has(2))
    return keepAll(node);
  auto training = node.scalarInt(2, "training_mode");
  if (failed(training))
    return failure();
  if (!*training)
    return keepAll(node);
  if (node.hasOutput(1))
    return unsupported(node.error()) << "in training mode is not supported where its mask is read";
  if (node.has(1) && !node.host(1))
    return unsupported(node.error())
           << "in training mode is not supported with a ratio that is no constant";
  constexpr double kDefaultRatio = 0.5;
  const double ratio = node.has(1) ? node.host(1)->number(0) : kDefaultRatio;
  return node.define(dropout(node, node.input(0), ratio));
}

static LogicalResult convertEyeLike(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  Type element = node.input(0).element();
  if (node.attribute("dtype"))
    element = elementType(node.emit.getContext(), node.attrInt("dtype", 0));
  if (shape.size() != 2 || !element || !fitsConstant(element, shape))
    return node.error() << "needs two dimensions of a known type, of at most 1 MiB";
  const int64_t diagonal = node.attrInt("k", 0);
  auto eye = std::make_shared<HostTensor>(element, shape, shape);
  for (int64_t row = 0; row < shape[0]; ++row) {
    const int64_t column = row + std::clamp(diagonal, -shape[0], shape[1]);
    if (column < 0 || column >= shape[1])
      continue;
    if (eye->isFloat())
      eye->floats[row * shape[1] + column] = 1;
    else
      eye->ints[row * shape[1] + column] = 1;
  }
  eye->compress();
  return node.define(Tensor(Host(eye)));
}

static LogicalResult convertShape(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  const int64_t rank = shape.size();
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(node.attrInt("start", 0)), end = clamp(node.attrInt("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t i = start; i < end; ++i)
    sizes.push_back(shape[i]);
  const int64_t count = sizes.size();
  return node.define(
      Tensor(HostTensor::ofInts(node.emit.getI64Type(), {count}, std::move(sizes))));
}

static LogicalResult convertSize(NodeConverter &node) {
  return node.define(
      Tensor(HostTensor::ofInts(node.emit.getI64Type(), {}, {product(node.input(0).shape())})));
}

/// A float list of a Constant attribute.
static Host ofFloats(Type element, Shape shape, ArrayRef<double> values) {
  auto tensor = std::make_shared<HostTensor>(element, shape, shape);
  for (size_t i = 0; i < values.size(); ++i)
    tensor->floats[i] = roundTo(element, values[i]);
  tensor->compress();
  return tensor;
}

static FailureOr<Tensor> ofTensor(NodeConverter &node, const onnx::TensorProto &tensor) {
  auto weight = node.tensors.read(tensor);
  if (failed(weight))
    return failure();
  Type element = elementType(node.emit.getContext(), tensor.data_type());
  if (Host constant = HostTensor::ofWeight(element, *weight))
    return Tensor(constant);
  return LogicalResult(node.error() << "holds more than 1 MiB; store it as an initializer");
}

static LogicalResult convertConstant(NodeConverter &node) {
  Type i64 = node.emit.getI64Type(), f32 = node.emit.getF32Type();
  for (const auto &attribute : node.node.attribute()) {
    const std::string &name = attribute.name();
    const int64_t ints = attribute.ints_size(), floats = attribute.floats_size();
    if (name == "value_int")
      return node.define(Tensor(HostTensor::ofInts(i64, {}, {attribute.i()})));
    if (name == "value_float")
      return node.define(Tensor(HostTensor::splat(f32, {}, attribute.f())));
    if (name == "value_ints")
      return node.define(Tensor(HostTensor::ofInts(
          i64, {ints}, {attribute.ints().begin(), attribute.ints().end()})));
    if (name == "value_floats")
      return node.define(Tensor(
          ofFloats(f32, {floats},
                   SmallVector<double>(attribute.floats().begin(), attribute.floats().end()))));
    if (name == "value") {
      auto constant = ofTensor(node, attribute.t());
      return failed(constant) ? failure() : node.define(*constant);
    }
  }
  return unsupported(node.error()) << "has a value of an unsupported kind";
}

static LogicalResult convertConstantOfShape(NodeConverter &node) {
  auto shape = node.ints(0, "the shape");
  if (failed(shape))
    return failure();
  if (failed(node.checkShape(*shape)))
    return failure();
  const auto *value = node.attribute("value");
  if (!value)
    return node.define(Tensor(HostTensor::splat(node.emit.getF32Type(), *shape, 0)));
  auto scalar = ofTensor(node, value->t());
  if (failed(scalar))
    return failure();
  if (scalar->host->size() != 1)
    return node.error() << "needs one value to fill with";
  return node.define(expandTensor(node, reshapeTensor(node, *scalar, {}), *shape));
}

static LogicalResult convertRange(NodeConverter &node) {
  Host start = node.host(0), limit = node.host(1), delta = node.host(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 ||
      delta->size() != 1)
    return node.error() << "needs bounds known while compiling";
  return node.define(range(node, *start, *limit, *delta));
}

static LogicalResult convertTrilu(NodeConverter &node) {
  int64_t diagonal = 0;
  if (node.has(1)) {
    auto k = node.scalarInt(1, "k");
    if (failed(k))
      return failure();
    diagonal = *k;
  }
  return node.define(triangle(node, node.input(0), node.attrInt("upper", 1), diagonal));
}

void addShapeConverters(ConverterTable &table) {
  table["Identity"] = Operator(convertIdentity).withSequences();
  table["Dropout"] = convertDropout;
  table["EyeLike"] = convertEyeLike;
  table["Shape"] = convertShape;
  table["Size"] = convertSize;
  table["Constant"] = {convertConstant, 0};
  table["ConstantOfShape"] = convertConstantOfShape;
  table["Range"] = {convertRange, 3};
  table["Trilu"] = convertTrilu;
}

} // namespace dtc::import
