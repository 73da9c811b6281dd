// Resize: each resized dimension by itself, nearest elements by their positions, linear
// interpolation by a product with the matrix of its weights.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

namespace {
/// One resized dimension. `scale` is what the file says, which needn't be to / from.
struct ResizedDim {
  int64_t dim, from, to;
  float scale;
};
} // namespace

/// Upsample, and Resize of opset 10: scales alone, elements at the multiples of their inverse.
static bool isOldForm(NodeConverter &node) { return node.op() == "Upsample" || node.opset < 11; }

/// Where element `at` of the result lies in the input, in float32 as onnxruntime computes it.
static FailureOr<float> sourcePosition(NodeConverter &node, const ResizedDim &resized, int64_t at) {
  const std::string mode = isOldForm(node)
                               ? "asymmetric"
                               : node.attrString("coordinate_transformation_mode", "half_pixel");
  const bool half = mode == "half_pixel", pytorch = mode == "pytorch_half_pixel";
  if (half || (pytorch && resized.to > 1))
    return (float(at) + 0.5f) / resized.scale - 0.5f;
  if (mode == "asymmetric")
    return float(at) / resized.scale;
  if (mode == "align_corners" && resized.to > 1)
    return float(at) * float(resized.from - 1) / float(resized.to - 1);
  if (mode == "align_corners" || pytorch)
    return 0.0f;
  return LogicalResult(node.error()
                       << "has an unsupported coordinate_transformation_mode: " << mode);
}

static FailureOr<int64_t> nearest(NodeConverter &node, float position) {
  const std::string mode =
      isOldForm(node) ? "floor" : node.attrString("nearest_mode", "round_prefer_floor");
  if (mode == "round_prefer_floor")
    return int64_t(std::ceil(position - 0.5f));
  if (mode == "round_prefer_ceil")
    return int64_t(std::floor(position + 0.5f));
  if (mode == "floor" || mode == "ceil")
    return int64_t(mode == "floor" ? std::floor(position) : std::ceil(position));
  return LogicalResult(node.error() << "has an unsupported nearest_mode: " << mode);
}

/// Each element `times` times in a row.
static Value repeatElements(Emitter &emit, Value value, int64_t dim, int64_t times) {
  Shape lifted(tensorType(value).getShape()), merged = lifted;
  lifted.insert(lifted.begin() + dim + 1, 1);
  merged[dim] *= times;
  value = reshape(emit, value, lifted);
  lifted[dim + 1] = times;
  return reshape(emit, broadcastTo(emit, value, lifted), merged);
}

static FailureOr<Value> resizeNearest(NodeConverter &node, Value value, const ResizedDim &resized) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < resized.to; ++i) {
    auto position = sourcePosition(node, resized, i);
    if (failed(position))
      return failure();
    auto index = nearest(node, *position);
    if (failed(index))
      return failure();
    indices.push_back(std::clamp<int64_t>(*index, 0, resized.from - 1));
  }
  const int64_t times = resized.to / resized.from;
  bool repeats = times * resized.from == resized.to;
  for (int64_t i = 0; i < resized.to && repeats; ++i)
    repeats = indices[i] == i / times;
  if (repeats)
    return repeatElements(node.emit, value, resized.dim, times);
  Host at = HostTensor::ofInts(node.emit.getI64Type(), {resized.to}, std::move(indices));
  return gatherAtConstants(node.emit, value, *at, resized.dim);
}

static FailureOr<Value> resizeLinear(NodeConverter &node, Value value, const ResizedDim &resized) {
  const Type element = elementOf(value);
  const Shape sizes = {resized.to, resized.from};
  if (!fitsConstant(element, sizes))
    return LogicalResult(node.error() << "interpolates too large a dimension: " << resized.from);
  HostTensor weights(element, sizes, sizes);
  for (int64_t i = 0; i < resized.to; ++i) {
    auto position = sourcePosition(node, resized, i);
    if (failed(position))
      return failure();
    const float inside = std::clamp(*position, 0.0f, float(resized.from - 1));
    const int64_t low = int64_t(inside), high = std::min(low + 1, resized.from - 1);
    const float share = inside - float(low);
    weights.floats[i * resized.from + low] += 1 - share;
    weights.floats[i * resized.from + high] += share;
  }
  weights.compress();
  const int64_t rank = tensorType(value).getRank();
  Shape lhs, result;
  for (int64_t i = 0; i < rank; ++i) {
    lhs.push_back(i == resized.dim ? rank : i);
    result.push_back(i);
  }
  Value matrix = toValue(node.emit, node.emit.getLoc(), weights);
  return contract(node.emit, value, lhs, matrix, {resized.dim, rank}, result);
}

/// An input of the old form, or in opset 7 an attribute.
static Host oldScales(NodeConverter &node) {
  const auto *given = node.attribute("scales");
  if (!given)
    return node.host(1);
  const int64_t count = std::min<int64_t>(given->floats_size(), kMaxListed);
  auto scales = std::make_shared<HostTensor>(node.emit.getF32Type(), Shape{count}, Shape{count});
  for (int64_t i = 0; i < count; ++i)
    scales->floats[i] = given->floats(i);
  scales->compress();
  return scales;
}

/// The dimensions that change, from `scales` or `sizes`, whichever is given.
static FailureOr<std::vector<ResizedDim>> resizedDims(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  auto sorted = node.axes(-1, shape.size(), true);
  if (failed(sorted))
    return failure();
  Shape axes = *sorted;
  if (auto given = node.attrInts("axes"); given && !given->empty()) // in the order of the sizes
    for (size_t i = 0; i < axes.size(); ++i)
      axes[i] = (*given)[i] < 0 ? (*given)[i] + int64_t(shape.size()) : (*given)[i];
  const Host scales = isOldForm(node) ? oldScales(node) : node.host(2), sizes = node.host(3);
  const bool scaled = scales && scales->size() > 0;
  const Host given = scaled ? scales : sizes;
  if (!given || given->shape.size() != 1 || given->isFloat() != scaled ||
      given->size() != int64_t(axes.size()))
    return LogicalResult(node.error() << "needs a scale or size for each axis, known while "
                                         "compiling");
  std::vector<ResizedDim> dims;
  const int64_t step = given->strides()[0];
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t dim = axes[i], from = shape[dim];
    const double number = given->number(int64_t(i) * step);
    const double to = scaled ? std::floor(double(from) * number) : number;
    if (!(to >= 1 && to <= double(kMaxEvaluated)))
      return LogicalResult(node.error() << "has a bad size for dimension " << dim);
    const float scale = scaled ? float(number) : float(to) / float(from);
    if (to != double(from) || scale != 1)
      dims.push_back({dim, from, int64_t(to), scale});
  }
  return dims;
}

static LogicalResult convertResize(NodeConverter &node) {
  const std::string mode = node.attrString("mode", "nearest");
  if (mode != "nearest" && mode != "linear")
    return node.error() << "has an unsupported mode: " << mode;
  if (!isa<FloatType>(node.input(0).element()))
    return node.error() << "is not supported on " << node.input(0).element();
  const std::string policy = node.attrString("keep_aspect_ratio_policy", "stretch");
  if (node.attrInt("antialias", 0) || node.attrInt("exclude_outside", 0) || policy != "stretch")
    return node.error() << "is supported without antialias, exclude_outside and "
                           "keep_aspect_ratio_policy only";
  auto dims = resizedDims(node);
  if (failed(dims))
    return failure();
  Value value = node.value(0);
  for (const ResizedDim &resized : *dims) {
    auto next = mode == "nearest" ? resizeNearest(node, value, resized)
                                  : resizeLinear(node, value, resized);
    if (failed(next))
      return failure();
    value = *next;
  }
  return node.define(value);
}

void addResizeConverter(ConverterTable &table) {
  table["Resize"] = convertResize;
  table["Upsample"] = convertResize; // its name before opset 10
}

} // namespace dtc::import
