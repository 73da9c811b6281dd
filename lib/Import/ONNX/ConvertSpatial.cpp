// Transposed convolution, and what moves elements between channels and in space.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/ScatterAt.h"
#include "dtc/Import/Build/TransposedConvolution.h"
#include "dtc/Import/Build/Windows.h"

#include "dtc-io/CheckedSize.h"

using namespace mlir;

namespace dtc::import {

/// Where the output's shape is given, the padding follows from it.
static void fitOutput(const std::string &automatic, std::optional<int64_t> wanted,
                      TransposedDim &t) {
  if (!wanted && !StringRef(automatic).starts_with("SAME"))
    return;
  const int64_t output = wanted.value_or(t.size * t.stride);
  const int64_t total =
      t.stride * (t.size - 1) + t.extra + (t.kernel - 1) * t.dilation + 1 - output;
  if (total < 0)
    t.extra -= total; // zeros behind
  const int64_t padding = std::max<int64_t>(total, 0);
  t.low = automatic == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
  t.high = padding - t.low;
}

static FailureOr<std::vector<TransposedDim>> readTransposed(NodeConverter &node) {
  const Shape input = node.input(0).shape(), weight = node.input(1).shape();
  const size_t n = input.size() - 2;
  const Shape strides = node.attrInts("strides").value_or(Shape(n, 1)),
              dilations = node.attrInts("dilations").value_or(Shape(n, 1)),
              pads = node.attrInts("pads").value_or(Shape(2 * n, 0)),
              extra = node.attrInts("output_padding").value_or(Shape(n, 0));
  auto wanted = node.attrInts("output_shape");
  if (strides.size() != n || dilations.size() != n || pads.size() != 2 * n || extra.size() != n ||
      (wanted && wanted->size() < n))
    return LogicalResult(node.error() << "has attributes for another number of dimensions");
  const std::string automatic = node.attrString("auto_pad", "NOTSET");
  std::vector<TransposedDim> result;
  for (size_t i = 0; i < n; ++i) {
    TransposedDim t{input[i + 2], weight[i + 2], strides[i], dilations[i],
                    pads[i],      pads[i + n],   extra[i]};
    if (failed(checkTransposed(node, t)))
      return failure();
    if (automatic == "VALID")
      t.low = t.high = 0;
    const std::optional<int64_t> output =
        wanted ? std::optional((*wanted)[wanted->size() - n + i]) : std::nullopt;
    if (output && (*output < 1 || *output > INT32_MAX))
      return LogicalResult(node.error() << "has a bad output_shape: " << *output);
    fitOutput(automatic, output, t);
    result.push_back(t);
  }
  return result;
}

static LogicalResult convertConvTranspose(NodeConverter &node) {
  const int64_t groups = node.attrInt("group", 1);
  if (failed(checkTransposed(node, node.input(0), node.input(1), groups)))
    return failure();
  auto dims = readTransposed(node);
  if (failed(dims))
    return failure();
  const Tensor *bias = node.has(2) ? &node.input(2) : nullptr;
  return node.define(convolveTransposed(node, node.input(0), node.input(1), bias, *dims, groups));
}

/// Sums the columns of an image's blocks where they overlap.
static LogicalResult convertCol2Im(NodeConverter &node) {
  auto image = node.ints(1, "image_shape"), block = node.ints(2, "block_shape");
  if (failed(image) || failed(block))
    return failure();
  const size_t n = image->size();
  Window window;
  window.kernel = *block;
  window.strides = node.attrInts("strides").value_or(Shape(n, 1));
  window.dilations = node.attrInts("dilations").value_or(Shape(n, 1));
  const Shape pads = node.attrInts("pads").value_or(Shape(2 * n, 0));
  if (pads.size() != 2 * n || n == 0)
    return node.error() << "has attributes for another number of dimensions";
  window.low.assign(pads.begin(), pads.begin() + n);
  window.high.assign(pads.begin() + n, pads.end());
  return node.define(sumBlocks(node, node.input(0), window, *image));
}

static LogicalResult convertDepthToSpace(NodeConverter &node) {
  const Shape s = node.input(0).shape();
  const int64_t block = node.attrInt("blocksize", 0);
  const std::string mode = node.attrString("mode", "DCR");
  const bool toSpace = node.op() == "DepthToSpace";
  if (s.size() != 4 || block < 1 || block > INT32_MAX ||
      (toSpace ? s[1] % block || s[1] / block % block : s[2] % block || s[3] % block))
    return node.error() << "cannot divide " << listed(s) << " into blocks of " << block;
  if (mode != "DCR" && mode != "CRD")
    return node.error() << "has an unknown mode: " << mode;
  const bool blocksFirst = mode == "DCR";
  if (toSpace) {
    const int64_t c = s[1] / block / block;
    Tensor x =
        blocksFirst
            ? transposeTensor(
                  node, reshapeTensor(node, node.input(0), {s[0], block, block, c, s[2], s[3]}),
                  {0, 3, 4, 1, 5, 2})
            : transposeTensor(
                  node, reshapeTensor(node, node.input(0), {s[0], c, block, block, s[2], s[3]}),
                  {0, 1, 4, 2, 5, 3});
    return node.define(reshapeTensor(node, x, {s[0], c, s[2] * block, s[3] * block}));
  }
  Tensor x =
      reshapeTensor(node, node.input(0), {s[0], s[1], s[2] / block, block, s[3] / block, block});
  x = transposeTensor(node, x, blocksFirst ? Shape{0, 3, 5, 1, 2, 4} : Shape{0, 1, 3, 5, 2, 4});
  return node.define(
      reshapeTensor(node, x, {s[0], s[1] * block * block, s[2] / block, s[3] / block}));
}

static LogicalResult convertCenterCropPad(NodeConverter &node) {
  Shape shape = node.input(0).shape();
  auto axes = node.attrInts("axes");
  auto wanted = node.ints(1, "the shape");
  if (failed(wanted))
    return failure();
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < shape.size(); ++i)
      axes->push_back(i);
  }
  if (axes->size() != wanted->size())
    return node.error() << "needs one size for each axis";
  Value x = node.value(0);
  for (size_t i = 0; i < axes->size(); ++i) {
    auto axis = node.axis((*axes)[i], shape.size());
    if (failed(axis))
      return failure();
    const int64_t have = shape[*axis], want = (*wanted)[i];
    shape[*axis] = want;
    if (want < 1)
      return node.error() << "has a bad size: " << want;
    if (failed(node.checkShape(shape)))
      return failure();
    Shape low(shape.size(), 0), high = low;
    low[*axis] = std::max<int64_t>(want - have, 0) / 2;
    high[*axis] = std::max<int64_t>(want - have, 0) - low[*axis];
    x = sliceDim(node.emit, x, *axis, std::max<int64_t>(have - want, 0) / 2, std::min(have, want));
    x = pad(node.emit, x, low, high, 0);
  }
  return node.define(x);
}

/// The sizes that the positions are counted in.
static FailureOr<Shape> unpooledShape(NodeConverter &node) {
  const Shape pooled = node.input(0).shape();
  const size_t n = pooled.size() < 3 ? 0 : pooled.size() - 2;
  const Shape kernel = node.attrInts("kernel_shape").value_or(Shape()),
              strides = node.attrInts("strides").value_or(Shape(n, 1)),
              pads = node.attrInts("pads").value_or(Shape(2 * n, 0));
  if (n == 0 || kernel.size() != n || strides.size() != n || pads.size() != 2 * n)
    return LogicalResult(node.error() << "has attributes for another number of dimensions");
  Shape shape(ArrayRef(pooled).take_front(2));
  for (size_t i = 0; i < n; ++i) {
    for (int64_t size : {kernel[i] - 1, strides[i] - 1, pads[i], pads[i + n]})
      if (size < 0 || size > INT32_MAX)
        return LogicalResult(node.error() << "has a window of bad sizes");
    const io::CheckedSize last = io::CheckedSize(pooled[i + 2] - 1) * strides[i];
    shape.push_back(last ? *last + kernel[i] - pads[i] - pads[i + n] : -1);
    if (shape.back() < 1)
      return LogicalResult(node.error() << "has a bad size in dimension " << i + 2);
  }
  if (failed(node.checkShape(shape)))
    return failure();
  return shape;
}

/// Positions in each plane of so many elements. Those of another channel's plane, which MaxPool
/// doesn't give, are outside. A sample's own number isn't looked at: it changes with the batch.
static Value positionsInPlane(Emitter &emit, Value at, int64_t plane) {
  const Shape shape(tensorType(at).getShape());
  Value size = splatLike(emit, at, plane), channels = splatLike(emit, at, shape[1]);
  Value planes = arith::DivSIOp::create(emit, at, size);
  Value channel = graph::IotaOp::create(emit, tensorType(at), 1);
  using Predicate = arith::CmpIPredicate;
  Value isOwn = arith::CmpIOp::create(emit, Predicate::eq,
                                      arith::RemSIOp::create(emit, planes, channels), channel);
  Value isPosition = arith::CmpIOp::create(emit, Predicate::sge, at, splatLike(emit, at, 0));
  return arith::SelectOp::create(emit, arith::AndIOp::create(emit, isOwn, isPosition),
                                 arith::RemSIOp::create(emit, at, size), size);
}

static LogicalResult convertMaxUnpool(NodeConverter &node) {
  Emitter &emit = node.emit;
  const Tensor &pooled = node.input(0), &positions = node.input(1);
  auto shape = unpooledShape(node);
  if (failed(shape))
    return failure();
  if (positions.shape() != pooled.shape() || !positions.element().isSignlessInteger(64) ||
      !isa<FloatType>(pooled.element()))
    return node.error() << "needs floats, and a position of 64 bits for each";
  const int64_t batch = (*shape)[0], channels = (*shape)[1],
                plane = product(ArrayRef(*shape).drop_front(2)),
                count = product(ArrayRef(pooled.shape()).drop_front(2));
  Value at = positionsInPlane(emit, reshape(emit, node.value(1), {batch, channels, count}), plane);
  Tensor zeros(HostTensor::splat(pooled.element(), {batch, channels, plane}, 0));
  auto planes = scatterAlong(node, zeros, at, reshapeTensor(node, pooled, {batch, channels, count}),
                             2, Write::Replace);
  if (failed(planes))
    return failure();
  Value result = reshape(emit, node.value(*planes), *shape);
  if (!node.has(2))
    return node.define(result);
  // A larger output has zeros behind what the positions count.
  auto wanted = node.ints(2, "output_shape");
  if (failed(wanted) || failed(node.checkShape(*wanted)))
    return failure();
  if (wanted->size() != shape->size() || (*wanted)[1] != channels)
    return node.error() << "has a bad output_shape: " << listed(*wanted);
  Shape low(shape->size(), 0), high = low;
  for (size_t i = 2; i < shape->size(); ++i) {
    high[i] = (*wanted)[i] - (*shape)[i];
    if (high[i] < 0)
      return node.error() << "has an output_shape below that of its windows: " << listed(*wanted);
  }
  return node.define(pad(emit, result, low, high, 0));
}

void addSpatialConverters(ConverterTable &table) {
  table["ConvTranspose"] = {convertConvTranspose, 2};
  table["Col2Im"] = {convertCol2Im, 3};
  table["DepthToSpace"] = convertDepthToSpace;
  table["SpaceToDepth"] = convertDepthToSpace;
  table["CenterCropPad"] = {convertCenterCropPad, 2};
  table["MaxUnpool"] = {convertMaxUnpool, 2};
}

} // namespace dtc::import
