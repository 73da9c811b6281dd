// Resize: each resized dimension by itself, nearest elements by their positions, linear
// interpolation by a product with the matrix of its weights.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Resize.h"
#include "dtc/Import/Unsupported.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

namespace {
/// One resized dimension. `scale` is what the file says, which needn't be to / from. `begin` and
/// `end` are the part that is cropped, 1 being the last element.
struct ResizedDim {
  int64_t dim, from, to;
  float scale;
  float begin = 0, end = 1;
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
  if (mode == "half_pixel_symmetric") { // the centres of both fall together
    const float adjusted = float(resized.to) / (resized.scale * float(resized.from));
    return float(resized.from) / 2 * (1 - adjusted) + (float(at) + 0.5f) / resized.scale - 0.5f;
  }
  if (mode == "tf_crop_and_resize") {
    const float last = float(resized.from - 1), part = (resized.end - resized.begin) * last;
    return resized.begin * last +
           (resized.to > 1 ? float(at) * part / float(resized.to - 1) : part / 2);
  }
  if (mode == "align_corners" && resized.to > 1)
    return float(at) * float(resized.from - 1) / float(resized.to - 1);
  if (mode == "align_corners" || pytorch)
    return 0.0f;
  return LogicalResult(unsupported(node.error())
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
  return LogicalResult(unsupported(node.error()) << "has an unsupported nearest_mode: " << mode);
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
    indices.push_back(*index);
  }
  return resizeByIndices(node.emit, value, resized.dim, std::move(indices));
}

/// The elements around a position. Antialiasing widens the kernel where a dimension shrinks.
static FailureOr<std::vector<Share>> sharesAt(NodeConverter &node, const ResizedDim &resized,
                                              float position) {
  const std::string mode = node.attrString("mode", "nearest");
  if (mode == "nearest") {
    auto index = nearest(node, position);
    if (failed(index))
      return failure();
    return std::vector<Share>{{*index, 1.0}};
  }
  Interpolation form{mode == "cubic", node.attrFloat("cubic_coeff_a", -0.75)};
  const bool antialias = node.attrInt("antialias", 0);
  form.shrink = antialias ? std::min(double(resized.scale), 1.0) : 1.0;
  form.excludesOutside = node.attrInt("exclude_outside", 0);
  return interpolationShares(form, position, resized.from);
}

/// Where a position is outside of what a crop is taken from, which then has another value.
static bool isOutside(NodeConverter &node, const ResizedDim &resized, float position) {
  return node.attrString("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" &&
         (position < 0 || position > float(resized.from - 1));
}

/// Interpolated elements, and those outside of a crop, which have a value of their own.
static FailureOr<Value> resizeByMatrix(NodeConverter &node, Value value,
                                       const ResizedDim &resized) {
  Emitter &emit = node.emit;
  const Type element = elementOf(value);
  if (failed(checkShares(node, value, resized.dim, resized.to)))
    return failure();
  HostTensor beyond(element, {resized.to}, {resized.to});
  const double other = node.attrFloat("extrapolation_value", 0);
  std::vector<std::vector<Share>> all;
  for (int64_t i = 0; i < resized.to; ++i) {
    auto position = sourcePosition(node, resized, i);
    if (failed(position))
      return failure();
    all.emplace_back();
    if (isOutside(node, resized, *position)) {
      beyond.floats[i] = roundTo(element, other);
      continue;
    }
    auto shares = sharesAt(node, resized, *position);
    if (failed(shares))
      return failure();
    all.back() = std::move(*shares);
  }
  Value inside = resizeByShares(node, value, resized.dim, all);
  if (llvm::all_of(beyond.floats, [](double term) { return term == 0; }))
    return inside;
  Value term = toValue(emit, emit.getLoc(), beyond);
  return arith::AddFOp::create(
             emit, inside, broadcastAlong(emit, term, tensorType(inside).getShape(), {resized.dim}))
      .getResult();
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

/// Sizes that keep the ratio of dimensions: as large as fits into those that are given, or as small
/// as covers them.
static LogicalResult keepAspectRatio(NodeConverter &node, std::vector<ResizedDim> &dims) {
  const std::string policy = node.attrString("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || dims.empty())
    return success();
  if (policy != "not_larger" && policy != "not_smaller")
    return node.error() << "has an unknown keep_aspect_ratio_policy: " << policy;
  float scale = dims.front().scale;
  for (const ResizedDim &dim : dims)
    scale = policy == "not_larger" ? std::min(scale, dim.scale) : std::max(scale, dim.scale);
  for (ResizedDim &dim : dims) {
    dim.scale = scale;
    dim.to = int64_t(std::floor(double(scale) * double(dim.from) + 0.5));
    if (dim.to < 1 || dim.to > kMaxEvaluated)
      return node.error() << "has a bad size for dimension " << dim.dim;
  }
  return success();
}

/// What a crop takes of each dimension.
static LogicalResult readCrop(NodeConverter &node, std::vector<ResizedDim> &dims) {
  if (node.attrString("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize")
    return success();
  const Host crop = node.host(1);
  if (!crop || !crop->isFloat() || crop->shape.size() != 1 ||
      crop->size() != int64_t(2 * dims.size()))
    return node.error() << "needs a begin and end for each axis, known while compiling";
  const int64_t step = crop->strides()[0], count = int64_t(dims.size());
  for (int64_t i = 0; i < count; ++i) {
    dims[i].begin = float(crop->number(i * step));
    dims[i].end = float(crop->number((count + i) * step));
    if (!std::isfinite(dims[i].begin) || !std::isfinite(dims[i].end) ||
        std::max(std::abs(dims[i].begin), std::abs(dims[i].end)) > float(kMaxEvaluated))
      return node.error() << "has a bad crop of dimension " << dims[i].dim;
  }
  return success();
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
    dims.push_back({dim, from, int64_t(to), scaled ? float(number) : float(to) / float(from)});
  }
  if (failed(readCrop(node, dims)) || (!scaled && failed(keepAspectRatio(node, dims))))
    return failure();
  llvm::erase_if(dims, [](const ResizedDim &dim) {
    return dim.to == dim.from && dim.scale == 1 && dim.begin == 0 && dim.end == 1;
  });
  return dims;
}

static LogicalResult convertResize(NodeConverter &node) {
  const std::string mode = node.attrString("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    return node.error() << "has an unknown mode: " << mode;
  const bool crops =
      node.attrString("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" &&
      !isOldForm(node);
  const bool looksUp = mode == "nearest" && !crops;
  if (!looksUp && !isa<FloatType>(node.input(0).element()))
    return unsupported(node.error()) << "is not supported on " << node.input(0).element();
  if (mode == "nearest" && node.attrInt("antialias", 0))
    return node.error() << "has antialias, which the mode nearest lacks";
  auto dims = resizedDims(node);
  if (failed(dims))
    return failure();
  Value value = node.value(0);
  for (const ResizedDim &resized : *dims) {
    auto next =
        looksUp ? resizeNearest(node, value, resized) : resizeByMatrix(node, value, resized);
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
