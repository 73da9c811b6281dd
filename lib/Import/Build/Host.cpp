#include "dtc/Import/Build/Host.h"
#include "dtc/Import/Build/HostElementwise.h"

#include "dtc-io/CheckedSize.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Weights/WeightStore.h"

#include "llvm/ADT/APFloat.h"

#include <bit>

using namespace mlir;

namespace dtc::import {

std::string listed(ArrayRef<int64_t> sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

int64_t dot(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i)
    offset += index[i] * strides[i];
  return offset;
}

static int64_t byteLimit(Type element) {
  return kConstantLimit / ((element.getIntOrFloatBitWidth() + 7) / 8);
}

bool fitsConstant(Type element, ArrayRef<int64_t> shape) {
  return io::CheckedSize::product(shape).isAtMost(std::min(byteLimit(element), kMaxEvaluated));
}

double roundTo(Type element, double value) {
  if (element.isF64() || !isa<FloatType>(element))
    return value;
  if (element.isF32())
    return static_cast<float>(value);
  llvm::APFloat rounded(value);
  bool lossy;
  rounded.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                  &lossy);
  return rounded.convertToDouble();
}

HostTensor::HostTensor(Type element, Shape shape, Shape stored)
    : element(element), shape(std::move(shape)), stored(std::move(stored)) {
  if (isFloat())
    floats.resize(numStored());
  else
    ints.resize(numStored());
}

int64_t HostTensor::numStored() const { return product(stored); }
int64_t HostTensor::size() const { return product(shape); }

Host HostTensor::splat(Type element, Shape shape, double value) {
  Shape stored(shape.size(), 1);
  auto tensor = std::make_shared<HostTensor>(element, std::move(shape), std::move(stored));
  if (tensor->isFloat())
    tensor->floats[0] = roundTo(element, value);
  else
    tensor->ints[0] = wrapTo(element, truncated(value));
  return tensor;
}

Host HostTensor::ofInts(Type element, Shape shape, std::vector<int64_t> values) {
  auto tensor = std::make_shared<HostTensor>(element, shape, shape);
  tensor->ints = std::move(values);
  tensor->compress();
  return tensor;
}

template <typename T> static int64_t load(const std::byte *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return static_cast<int64_t>(value);
}

static int64_t loadInt(Type element, const std::byte *data, int64_t i) {
  const bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  switch ((element.getIntOrFloatBitWidth() + 7) / 8) {
  case 1:
    return isUnsigned ? load<uint8_t>(data, i) : load<int8_t>(data, i);
  case 2:
    return isUnsigned ? load<uint16_t>(data, i) : load<int16_t>(data, i);
  case 4:
    return isUnsigned ? load<uint32_t>(data, i) : load<int32_t>(data, i);
  default:
    return load<int64_t>(data, i);
  }
}

Host HostTensor::ofWeight(Type element, const Weight &weight) {
  Shape shape(weight.shape.begin(), weight.shape.end());
  const bool hasData = weight.data || product(shape) == 0;
  if (!hasData || product(shape) > byteLimit(element))
    return {};
  auto tensor = std::make_shared<HostTensor>(element, shape, shape);
  const int64_t count = product(shape);
  for (int64_t i = 0; i < count; ++i) {
    if (auto type = dyn_cast<FloatType>(element)) {
      const unsigned width = type.getWidth();
      uint64_t bits = 0;
      std::memcpy(&bits, weight.data + i * (width / 8), width / 8);
      llvm::APFloat value(type.getFloatSemantics(), llvm::APInt(width, bits));
      tensor->floats[i] = value.convertToDouble();
    } else {
      tensor->ints[i] = wrapTo(element, loadInt(element, weight.data, i));
    }
  }
  tensor->compress();
  return tensor;
}

Shape HostTensor::strides() const {
  Shape result(shape.size(), 0);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (stored[i] != 1)
      result[i] = stride;
    stride *= stored[i];
  }
  return result;
}

SmallVector<int64_t> HostTensor::intList() const {
  SmallVector<int64_t> list;
  const Shape steps = strides();
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    const int64_t at = dot(index, steps);
    list.push_back(isFloat() ? truncated(floats[at]) : ints[at]);
  });
  return list;
}

/// Bitwise equality, so that -0 and NaN are kept apart from 0 and each other.
static bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void HostTensor::compress() {
  if (size() == 0)
    return;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t count = stored[dim];
    if (count == 1)
      continue;
    const int64_t inner = product(ArrayRef(stored).drop_front(dim + 1));
    const int64_t outer = product(ArrayRef(stored).take_front(dim));
    auto at = [&](int64_t o, int64_t k, int64_t i) { return (o * count + k) * inner + i; };
    bool equal = true;
    for (int64_t o = 0; equal && o < outer; ++o)
      for (int64_t k = 1; equal && k < count; ++k)
        for (int64_t i = 0; equal && i < inner; ++i)
          equal = isFloat() ? same(floats[at(o, 0, i)], floats[at(o, k, i)])
                            : ints[at(o, 0, i)] == ints[at(o, k, i)];
    if (!equal)
      continue;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        if (isFloat())
          floats[o * inner + i] = floats[at(o, 0, i)];
        else
          ints[o * inner + i] = ints[at(o, 0, i)];
      }
    stored[dim] = 1;
    isFloat() ? floats.resize(numStored()) : ints.resize(numStored());
  }
}

FailureOr<Shape> broadcastShapes(ArrayRef<Shape> shapes) {
  size_t rank = 0;
  for (const Shape &shape : shapes)
    rank = std::max(rank, shape.size());
  Shape result(rank, 1);
  for (const Shape &shape : shapes)
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &size = result[rank - shape.size() + i];
      if (size == 1)
        size = shape[i];
      else if (shape[i] != 1 && shape[i] != size)
        return failure();
    }
  return result;
}

Host expandHost(const Host &tensor, ArrayRef<int64_t> shape) {
  if (ArrayRef(tensor->shape) == shape)
    return tensor;
  auto result = std::make_shared<HostTensor>(*tensor);
  result->shape.assign(shape.begin(), shape.end());
  Shape stored(shape.size() - tensor->stored.size(), 1);
  stored.append(tensor->stored.begin(), tensor->stored.end());
  result->stored = stored;
  return result;
}

Host rearrange(const HostTensor &source, Shape shape, Shape stored,
               llvm::function_ref<int64_t(ArrayRef<int64_t>)> position) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 0)
      stored[i] = 0;
  if (!fitsConstant(source.element, stored))
    return {};
  auto result = std::make_shared<HostTensor>(source.element, std::move(shape), stored);
  int64_t next = 0;
  forEachIndex(stored, [&](ArrayRef<int64_t> index) {
    const int64_t from = position(index);
    if (source.isFloat())
      result->floats[next++] = source.floats[from];
    else
      result->ints[next++] = source.ints[from];
  });
  result->compress();
  return result;
}

static Attribute attribute(Builder &builder, const HostTensor &tensor, int64_t position) {
  if (tensor.isFloat())
    return builder.getFloatAttr(tensor.element, tensor.floats[position]);
  return builder.getIntegerAttr(tensor.element, tensor.ints[position]);
}

/// All stored elements at once: one by one, attributes take far longer than the numbers.
static DenseElementsAttr storedElements(RankedTensorType type, const HostTensor &tensor) {
  Type element = tensor.element;
  if (element.isF64())
    return DenseElementsAttr::get(type, ArrayRef<double>(tensor.floats));
  if (element.isF32())
    return DenseElementsAttr::get(type, ArrayRef<float>(llvm::to_vector_of<float>(tensor.floats)));
  if (element.isSignlessInteger(64))
    return DenseElementsAttr::get(type, ArrayRef<int64_t>(tensor.ints));
  Builder builder(type.getContext());
  SmallVector<Attribute> elements;
  for (int64_t i = 0; i < tensor.numStored(); ++i)
    elements.push_back(attribute(builder, tensor, i));
  return DenseElementsAttr::get(type, elements);
}

/// Emits a + b * index along the only stored dimension; null where it is no such sequence.
static Value affineSequence(OpBuilder &builder, Location loc, const HostTensor &tensor,
                            int64_t count) {
  if (tensor.isFloat() || tensor.element.isInteger(1) || count < 2)
    return {};
  const int64_t first = tensor.ints[0];
  int64_t step;
  if (__builtin_sub_overflow(tensor.ints[1], first, &step))
    return {};
  for (int64_t i = 0; i < count; ++i)
    if (wrapTo(tensor.element, int64_t(uint64_t(first) + uint64_t(i) * uint64_t(step))) !=
        tensor.ints[i])
      return {};
  auto type = RankedTensorType::get({count}, tensor.element);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, builder.getIntegerAttr(tensor.element, value)));
  };
  Value sequence = graph::IotaOp::create(builder, loc, type, 0);
  if (step != 1)
    sequence = arith::MulIOp::create(builder, loc, sequence, constant(step));
  if (first != 0)
    sequence = arith::AddIOp::create(builder, loc, sequence, constant(first));
  return sequence;
}

Value toValue(OpBuilder &builder, Location loc, const HostTensor &tensor) {
  auto type = RankedTensorType::get(tensor.shape, tensor.element);
  if (tensor.isSplat())
    return arith::ConstantOp::create(builder, loc,
                                     DenseElementsAttr::get(type, attribute(builder, tensor, 0)));
  Shape kept, dims;
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    if (tensor.stored[i] != 1) {
      kept.push_back(tensor.stored[i]);
      dims.push_back(i);
    }
  Value value = kept.size() == 1 ? affineSequence(builder, loc, tensor, kept[0]) : Value();
  if (!value)
    value = arith::ConstantOp::create(
        builder, loc, storedElements(RankedTensorType::get(kept, tensor.element), tensor));
  if (kept.size() == tensor.shape.size())
    return value;
  return graph::BroadcastOp::create(builder, loc, type, value, dims);
}

} // namespace dtc::import
