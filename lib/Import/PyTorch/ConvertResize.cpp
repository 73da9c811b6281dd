// Upsampling, and pools whose windows follow from the size of their result.
//
// An upsampling says the size of its result, or factors, which then are the scale:
//
//     upsample_nearest2d(x [.., 4, 4], None, [2.0, 2.0])   element i of the result is i / 2 of x
#include "AtenConverter.h"

#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Build/Resize.h"
#include "dtc/Import/Build/Selection.h"
#include "dtc/Import/Build/Windows.h"
#include "dtc/Import/Unsupported.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

namespace {
/// One resized dimension. The scale is that of PyTorch: a step of the result in elements of the
/// input.
struct Upsampled {
  int64_t dim, from, to;
  float scale;
};
} // namespace

/// The factor of one dimension, as the overloads with one argument for each call it.
static StringRef factorName(int64_t spatial, int64_t i) {
  static constexpr StringRef kNames[] = {"scales_d", "scales_h", "scales_w"};
  return spatial == 1 ? StringRef("scales") : kNames[3 - spatial + i];
}

static FailureOr<std::vector<double>> factorsOf(AtenConverter &node, int64_t spatial) {
  if (node.has("scale_factors") || node.overload() == "vec")
    return node.numbers("scale_factors");
  std::vector<double> factors;
  for (int64_t i = 0; i < spatial; ++i) {
    auto factor = node.number(factorName(spatial, i), 0);
    if (failed(factor))
      return failure();
    factors.push_back(*factor);
  }
  return factors;
}

static FailureOr<std::vector<Upsampled>> readUpsampled(AtenConverter &node, const Shape &shape) {
  const int64_t spatial = int64_t(shape.size()) - 2;
  if (spatial < 1 || spatial > 3)
    return LogicalResult(node.error() << "is supported on batches only");
  auto sizes = node.integers("output_size", Shape());
  auto factors = factorsOf(node, spatial);
  auto corners = node.boolean("align_corners", false);
  if (failed(sizes) || failed(factors) || failed(corners))
    return failure();
  if ((!sizes->empty() && int64_t(sizes->size()) != spatial) ||
      (!factors->empty() && int64_t(factors->size()) != spatial) ||
      (sizes->empty() && factors->empty()))
    return LogicalResult(node.error() << "needs a size or a factor for each dimension");
  std::vector<Upsampled> result;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t from = shape[i + 2];
    const double factor = factors->empty() ? 0 : (*factors)[i];
    const double to = sizes->empty() ? std::floor(double(from) * factor) : double((*sizes)[i]);
    if (!(to >= 1 && to <= double(INT32_MAX)))
      return LogicalResult(node.error() << "has a bad size for dimension " << i + 2);
    Upsampled each{i + 2, from, int64_t(to), factor > 0 ? float(1.0 / factor) : 0};
    if (*corners)
      each.scale = each.to > 1 ? float(from - 1) / float(each.to - 1) : 0;
    else if (!(factor > 0))
      each.scale = float(from) / float(each.to);
    result.push_back(each);
  }
  return result;
}

static LogicalResult convertNearest(AtenConverter &node) {
  auto input = node.tensor(node.has("input") ? "input" : "self");
  if (failed(input))
    return failure();
  auto dims = readUpsampled(node, input->shape());
  if (failed(dims))
    return failure();
  const float offset = StringRef(node.op()).contains("exact") ? 0.5f : 0.0f;
  Value value = node.value(*input);
  for (const Upsampled &each : *dims) {
    if (failed(node.checkShape({each.to})) || failed(node.chargeNodes(each.to / 64)))
      return failure();
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < each.to; ++i)
      indices.push_back(int64_t(std::floor((float(i) + offset) * each.scale)));
    value = resizeByIndices(node.emit, value, each.dim, std::move(indices));
  }
  return node.define(value);
}

/// Where element `at` of the result lies in the input, in float32 as PyTorch computes it.
static float sourcePosition(const Upsampled &each, int64_t at, bool corners) {
  return corners ? float(at) * each.scale : (float(at) + 0.5f) * each.scale - 0.5f;
}

static LogicalResult convertInterpolation(AtenConverter &node) {
  auto input = node.tensor(node.has("input") ? "input" : "self");
  auto corners = node.boolean("align_corners", false);
  if (failed(input) || failed(corners))
    return failure();
  if (!isa<FloatType>(input->element()))
    return unsupported(node.error()) << "is not supported on " << input->element();
  auto dims = readUpsampled(node, input->shape());
  if (failed(dims))
    return failure();
  const StringRef op = node.node.op;
  const bool antialias = op.contains("_aa");
  Interpolation form{op.contains("bicubic"), antialias ? -0.5 : -0.75};
  form.excludesOutside = antialias;
  Value value = node.value(*input);
  for (const Upsampled &each : *dims) {
    if (each.to == each.from && each.scale == 1)
      continue;
    if (failed(checkShares(node, value, each.dim, each.to)))
      return failure();
    form.shrink = antialias ? std::min(1.0, 1.0 / double(each.scale)) : 1;
    std::vector<std::vector<Share>> shares;
    for (int64_t i = 0; i < each.to; ++i)
      shares.push_back(interpolationShares(form, sourcePosition(each, i, *corners), each.from));
    value = resizeByShares(node, value, each.dim, shares);
  }
  return node.define(value);
}

namespace {
/// A window of an adaptive pool along one dimension.
struct Part {
  int64_t begin, size;
};
} // namespace

/// Windows of `to` results, which may overlap.
static std::vector<Part> adaptiveParts(int64_t from, int64_t to) {
  std::vector<Part> parts;
  for (int64_t i = 0; i < to; ++i) {
    const int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
    parts.push_back({begin, end - begin});
  }
  return parts;
}

/// The mean of windows is that along one dimension after the other.
static FailureOr<Tensor> meanOfParts(AtenConverter &node, const Tensor &tensor, int64_t dim,
                                     int64_t to) {
  Value value = node.value(tensor);
  if (failed(checkShares(node, value, dim, to)))
    return failure();
  std::vector<std::vector<Share>> shares;
  for (const Part &part : adaptiveParts(tensor.shape()[dim], to)) {
    shares.emplace_back();
    for (int64_t i = 0; i < part.size; ++i)
      shares.back().push_back({part.begin + i, 1.0 / double(part.size)});
  }
  return Tensor(resizeByShares(node, value, dim, shares));
}

static FailureOr<Tensor> maximumOfParts(AtenConverter &node, const Tensor &tensor, int64_t dim,
                                        int64_t to) {
  if (failed(node.chargeNodes(16 * to)))
    return failure();
  std::vector<Tensor> maxima;
  for (const Part &part : adaptiveParts(tensor.shape()[dim], to)) {
    auto maximum = firstExtreme(node, sliceTensor(node, tensor, dim, part.begin, part.size), dim,
                                {/*isMax=*/true, /*last=*/false, /*keepDims=*/true});
    if (failed(maximum))
      return failure();
    maxima.push_back(*maximum);
  }
  return concatTensors(node, maxima, dim);
}

/// Windows of equal size where they divide the input.
static FailureOr<Tensor> poolEvenly(AtenConverter &node, const Tensor &input, const Shape &to,
                                    bool isMax) {
  Window window;
  const size_t n = to.size();
  const Shape from(ArrayRef(input.shape()).take_back(n));
  for (size_t i = 0; i < n; ++i)
    window.kernel.push_back(from[i] / to[i]);
  window.strides = window.kernel;
  window.dilations.assign(n, 1);
  window.low.assign(n, 0);
  window.high.assign(n, 0);
  if (failed(checkWindow(node, window, from)))
    return failure();
  return isMax ? maxPool(node, input, window, false)
               : averagePool(node, input, window, false, false);
}

static LogicalResult convertAdaptivePool(AtenConverter &node) {
  auto self = node.tensor("self");
  auto asked = node.integers("output_size");
  if (failed(self) || failed(asked))
    return failure();
  const StringRef op = node.node.op;
  const bool isMax = op.contains("max");
  const int64_t n = op.contains("1d") ? 1 : op.contains("2d") ? 2 : 3, lead = self->rank() - n;
  if (asked->size() == 1)
    asked->assign(n, asked->front());
  if (lead != 2 || int64_t(asked->size()) != n || !isa<FloatType>(self->element()))
    return node.error() << "is supported on batches of floats only";
  const Shape from(ArrayRef(self->shape()).take_back(n));
  bool divides = true;
  for (auto [size, to] : llvm::zip_equal(from, *asked)) {
    if (to < 1 || to > INT32_MAX || failed(node.checkShape({to})))
      return node.error() << "has a bad size: " << to;
    divides = divides && size % to == 0;
  }
  if (*asked == Shape(n, 1) && !isMax)
    return node.define(reduceTensor(node, "ReduceMean", *self,
                                    llvm::to_vector(llvm::seq<int64_t>(lead, self->rank())),
                                    /*keepDims=*/true));
  if (divides && *asked != Shape(n, 1))
    return node.define(poolEvenly(node, *self, *asked, isMax));
  FailureOr<Tensor> result = *self;
  // From the last dimension on, so that the first of equal elements is taken.
  for (int64_t i = n - 1; i >= 0 && succeeded(result); --i)
    if (from[i] != (*asked)[i])
      result = isMax ? maximumOfParts(node, *result, lead + i, (*asked)[i])
                     : meanOfParts(node, *result, lead + i, (*asked)[i]);
  return node.define(result);
}

void addResizes(AtenTable &table) {
  for (const char *op : {"aten.upsample_nearest1d", "aten.upsample_nearest2d",
                         "aten.upsample_nearest3d", "aten._upsample_nearest_exact1d",
                         "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact3d"})
    table[op] = convertNearest;
  for (const char *op :
       {"aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d",
        "aten.upsample_bicubic2d", "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"})
    table[op] = convertInterpolation;
  for (const char *op :
       {"aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d",
        "aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d"})
    table[op] = convertAdaptivePool;
}

} // namespace dtc::import
