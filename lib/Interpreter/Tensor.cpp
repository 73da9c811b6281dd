#include "dtc/Interpreter/Tensor.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace dtc::interpreter {

bool Tensor::isSupported(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return false;
  Type element = tensor.getElementType();
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.isSignless() && integer.getWidth() <= 64;
  return element.isF16() || element.isBF16() || element.isF32() || element.isF64();
}

Tensor::Tensor(RankedTensorType type) : type(type) {
  if (isFloat())
    floats.resize(type.getNumElements());
  else
    ints.resize(type.getNumElements());
}

//===-- constants ---------------------------------------------------------===//

static int64_t toInt(const APInt &value) {
  return value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue();
}

static double toDouble(APFloat value) {
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToDouble();
}

/// Raw little-endian elements of a resource, of the types that files hold.
template <typename Element, typename Out>
static LogicalResult copyRaw(ArrayRef<char> data, std::vector<Out> &out) {
  if (data.size() != out.size() * sizeof(Element))
    return failure();
  for (size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, data.data() + i * sizeof(Element), sizeof(Element));
    out[i] = element;
  }
  return success();
}

static FailureOr<Tensor> fromResource(DenseResourceElementsAttr attr, Tensor tensor) {
  const AsmResourceBlob *blob = attr.getRawHandle().getBlob();
  if (!blob)
    return failure();
  Type element = tensor.type.getElementType();
  LogicalResult copied = failure();
  if (element.isF32())
    copied = copyRaw<float>(blob->getData(), tensor.floats);
  else if (element.isF64())
    copied = copyRaw<double>(blob->getData(), tensor.floats);
  else if (element.isInteger(64))
    copied = copyRaw<int64_t>(blob->getData(), tensor.ints);
  else if (element.isInteger(32))
    copied = copyRaw<int32_t>(blob->getData(), tensor.ints);
  if (failed(copied))
    return failure();
  return tensor;
}

FailureOr<Tensor> toTensor(ElementsAttr attr) {
  if (!Tensor::isSupported(attr.getShapedType()))
    return failure();
  Tensor tensor(cast<RankedTensorType>(attr.getShapedType()));
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    return fromResource(resource, std::move(tensor));
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense)
    return failure();
  if (tensor.isFloat() && dense.isSplat())
    tensor.floats.assign(tensor.size(), toDouble(dense.getSplatValue<APFloat>()));
  else if (tensor.isFloat())
    llvm::transform(dense.getValues<APFloat>(), tensor.floats.begin(), toDouble);
  else if (dense.isSplat())
    tensor.ints.assign(tensor.size(), toInt(dense.getSplatValue<APInt>()));
  else
    llvm::transform(dense.getValues<APInt>(), tensor.ints.begin(), toInt);
  return tensor;
}

DenseElementsAttr toAttr(const Tensor &tensor) {
  Type element = tensor.type.getElementType();
  if (auto type = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (double value : tensor.floats) {
      bool losesInfo;
      values.emplace_back(value);
      values.back().convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    }
    return DenseElementsAttr::get(tensor.type, values);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t value : tensor.ints)
    values.emplace_back(width, value, /*isSigned=*/true, /*implicitTrunc=*/true);
  return DenseElementsAttr::get(tensor.type, values);
}

//===-- rounding ----------------------------------------------------------===//

namespace {
struct FloatFormat {
  int mantissaBits, minExponent;
  double largest;
};
} // namespace

/// To nearest, ties to even: scaled so that the last place kept is the units.
static double roundFloat(double value, const FloatFormat &format) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), format.minExponent) - format.mantissaBits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  if (std::fabs(rounded) > format.largest)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

void roundToType(Tensor &tensor) {
  Type element = tensor.type.getElementType();
  if (element.isF64() || element.isInteger(64))
    return;
  if (element.isF32()) {
    for (double &value : tensor.floats)
      value = static_cast<float>(value);
  } else if (tensor.isFloat()) {
    FloatFormat bf16{7, -126, std::ldexp(2.0 - std::ldexp(1.0, -7), 127)};
    FloatFormat f16{10, -14, 65504.0};
    const FloatFormat &format = element.isBF16() ? bf16 : f16;
    for (double &value : tensor.floats)
      value = roundFloat(value, format);
  } else if (element.isInteger(1)) {
    for (int64_t &value : tensor.ints)
      value &= 1;
  } else {
    unsigned unused = 64 - element.getIntOrFloatBitWidth();
    for (int64_t &value : tensor.ints)
      value = static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
  }
}

//===-- drawing, comparing, printing --------------------------------------===//

static uint64_t splitMix(uint64_t &state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Tensor randomTensor(RankedTensorType type, uint64_t seed, int64_t intBound) {
  Tensor tensor(type);
  for (double &value : tensor.floats)
    value = std::ldexp(static_cast<double>(splitMix(seed) >> 11), -52) - 1.0;
  uint64_t bound = type.getElementType().isInteger(1) ? 2 : std::max<int64_t>(intBound, 1);
  for (int64_t &value : tensor.ints)
    value = static_cast<int64_t>(splitMix(seed) % bound);
  roundToType(tensor);
  return tensor;
}

static double difference(double actual, double expected) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected)))
    return 0;
  double delta = std::fabs(actual - expected) / std::max(1.0, std::fabs(expected));
  return std::isfinite(delta) ? delta : std::numeric_limits<double>::infinity();
}

double maxDifference(const Tensor &actual, const Tensor &expected) {
  double largest = 0;
  if (actual.floats.size() != expected.floats.size() || actual.ints.size() != expected.ints.size())
    return std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < actual.floats.size(); ++i)
    largest = std::max(largest, difference(actual.floats[i], expected.floats[i]));
  for (size_t i = 0; i < actual.ints.size(); ++i)
    largest = std::max(largest, difference(static_cast<double>(actual.ints[i]),
                                           static_cast<double>(expected.ints[i])));
  return largest;
}

static void printFrom(raw_ostream &os, const Tensor &tensor, int64_t dim, int64_t &position) {
  if (dim == tensor.rank()) {
    if (tensor.isFloat())
      os << llvm::format("%.6g", tensor.floats[position++]);
    else
      os << tensor.ints[position++];
    return;
  }
  os << '[';
  for (int64_t i = 0; i < tensor.shape()[dim]; ++i) {
    os << (i ? ", " : "");
    printFrom(os, tensor, dim + 1, position);
  }
  os << ']';
}

void print(raw_ostream &os, const Tensor &tensor) {
  int64_t position = 0;
  printFrom(os, tensor, 0, position);
}

} // namespace dtc::interpreter
