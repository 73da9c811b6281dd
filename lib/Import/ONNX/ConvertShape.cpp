// Operators that make tensors out of shapes and attributes.
#include "Movement.h"
#include "Tensors.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

static LogicalResult convertIdentity(NodeConverter &node) { return node.define(node.input(0)); }

static LogicalResult convertDropout(NodeConverter &node) {
  if (node.has(2)) {
    auto training = node.scalarInt(2, "training_mode");
    if (failed(training))
      return failure();
    if (*training && (!node.has(1) || !node.host(1) || node.host(1)->number(0) != 0))
      return node.error() << "in training mode is not supported; export the model in eval mode "
                             "(model.eval()); then training drops nothing either";
  }
  return node.define(node.input(0));
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
  return node.error() << "has a value of an unsupported kind";
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

/// start, start + delta, ...: a constant, or an iota where that would be too large.
static LogicalResult convertRange(NodeConverter &node) {
  Host start = node.host(0), limit = node.host(1), delta = node.host(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 ||
      delta->size() != 1)
    return node.error() << "needs bounds known while compiling";
  Type element = start->element;
  const double first = start->number(0), last = limit->number(0), step = delta->number(0);
  if (step == 0)
    return node.error() << "has the step 0";
  const double steps = std::ceil((last - first) / step);
  if (!(steps <= double(Budget::kMostElements)))
    return node.error() << "has too many elements, or bounds that are no numbers";
  const int64_t count = std::max(0.0, steps);
  if (fitsConstant(element, {count})) {
    auto result = std::make_shared<HostTensor>(element, Shape{count}, Shape{count});
    for (int64_t i = 0; i < count; ++i) {
      if (result->isFloat())
        result->floats[i] = roundTo(element, first + i * step);
      else
        result->ints[i] =
            int64_t(uint64_t(start->ints[0]) + uint64_t(i) * uint64_t(delta->ints[0]));
    }
    result->compress();
    return node.define(Tensor(result));
  }
  Emitter &emit = node.emit;
  Value index =
      graph::IotaOp::create(emit, RankedTensorType::get({count}, emit.getI64Type()), 0);
  index = castTo(emit, index, element);
  if (isa<FloatType>(element)) {
    index = arith::MulFOp::create(emit, index, splatLike(emit, index, step));
    return node.define(
        arith::AddFOp::create(emit, index, splatLike(emit, index, first)).getResult());
  }
  if (step != 1)
    index = arith::MulIOp::create(emit, index, splatLike(emit, index, step));
  if (first != 0)
    index = arith::AddIOp::create(emit, index, splatLike(emit, index, first));
  return node.define(index);
}

/// Keeps the upper or lower triangle of the last two dimensions.
static LogicalResult convertTrilu(NodeConverter &node) {
  const Tensor &tensor = node.input(0);
  const Shape shape = tensor.shape();
  const int64_t rank = shape.size();
  const bool upper = node.attrInt("upper", 1);
  int64_t diagonal = 0;
  if (rank < 2)
    return node.error() << "needs at least two dimensions";
  if (node.has(1)) {
    auto k = node.scalarInt(1, "k");
    if (failed(k))
      return failure();
    diagonal = *k;
  }
  auto keeps = [&](int64_t row, int64_t column) {
    return upper ? column - row >= diagonal : column - row <= diagonal;
  };
  if (tensor.host) {
    const HostTensor &host = *tensor.host;
    Shape stored = host.stored;
    stored[rank - 2] = shape[rank - 2];
    stored[rank - 1] = shape[rank - 1];
    if (fitsConstant(host.element, stored)) {
      auto result = std::make_shared<HostTensor>(host.element, shape, stored);
      const Shape steps = host.strides();
      int64_t next = 0;
      forEachIndex(stored, [&](ArrayRef<int64_t> index) {
        const bool kept = keeps(index[rank - 2], index[rank - 1]);
        const int64_t from = dot(index, steps), to = next++;
        if (host.isFloat())
          result->floats[to] = kept ? host.floats[from] : 0;
        else
          result->ints[to] = kept ? host.ints[from] : 0;
      });
      result->compress();
      return node.define(Tensor(result));
    }
  }
  Emitter &emit = node.emit;
  Value value = node.value(0);
  auto indexType = RankedTensorType::get(shape, emit.getI64Type());
  Value row = graph::IotaOp::create(emit, indexType, rank - 2);
  Value column = graph::IotaOp::create(emit, indexType, rank - 1);
  if (diagonal != 0)
    row = arith::AddIOp::create(emit, row, splatLike(emit, row, diagonal));
  Value kept = arith::CmpIOp::create(
      emit, upper ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle, column, row);
  return node.define(
      arith::SelectOp::create(emit, kept, value, splatLike(emit, value, 0)).getResult());
}

void addShapeConverters(ConverterTable &table) {
  table["Identity"] = convertIdentity;
  table["Dropout"] = convertDropout;
  table["Shape"] = convertShape;
  table["Size"] = convertSize;
  table["Constant"] = convertConstant;
  table["ConstantOfShape"] = convertConstantOfShape;
  table["Range"] = convertRange;
  table["Trilu"] = convertTrilu;
}

} // namespace dtc::import
