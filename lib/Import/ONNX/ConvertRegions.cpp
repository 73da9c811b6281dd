// RoiAlign and DeformConv: images read between their elements, where other inputs say.
#include "GraphBuilder.h"
#include "Taps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

namespace {
/// Each region is cut into bins; in each of these `samples` x `samples` places are looked up.
class RegionReader {
public:
  explicit RegionReader(NodeConverter &node)
      : node(node), emit(node.emit), b(node.emit, node.emit.getLoc()),
        bins{node.attrInt("output_height", 1), node.attrInt("output_width", 1)},
        samples(node.attrInt("sampling_ratio", 0)) {}

  LogicalResult run();

private:
  LogicalResult check();
  /// The places along dimension `dim` of the image, [regions, bins * samples].
  std::vector<Tap> tapsAlong(int64_t dim, int64_t size);
  Value pool(Value rows, ArrayRef<Tap> taps, int64_t regions, int64_t channels);

  NodeConverter &node;
  Emitter &emit;
  TensorBuilder b;
  int64_t bins[2], samples;
  bool halfPixel = true, takesMax = false;
};
} // namespace

LogicalResult RegionReader::check() {
  const Shape x = node.input(0).shape(), rois = node.input(1).shape();
  const std::string how = node.attrString("mode", "avg"),
                    mode = node.attrString("coordinate_transformation_mode",
                                           node.opset < 16 ? "output_half_pixel" : "half_pixel");
  halfPixel = mode == "half_pixel", takesMax = how == "max";
  if ((!halfPixel && mode != "output_half_pixel") || (!takesMax && how != "avg"))
    return node.error() << "has an unknown mode: " << mode << ", " << how;
  if (samples < 1)
    return node.error() << "needs a positive sampling_ratio, as the size of regions is data";
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || bins[0] < 1 || bins[1] < 1 ||
      !isa<FloatType>(node.input(0).element()) ||
      node.input(0).element() != node.input(1).element() ||
      node.input(2).shape() != Shape{rois[0]} || !isa<IntegerType>(node.input(2).element()))
    return node.error() << "operands of shapes or types that do not fit";
  constexpr int64_t kMost = 1 << 12;
  if (bins[0] > kMost || bins[1] > kMost || samples > kMost)
    return node.error() << "has too many bins or samples";
  return node.checkShape({rois[0], x[1], bins[0] * samples, bins[1] * samples});
}

std::vector<Tap> RegionReader::tapsAlong(int64_t dim, int64_t size) {
  const int64_t regions = node.input(1).shape()[0], count = bins[dim] * samples;
  const double scale = node.attrFloat("spatial_scale", 1), shift = halfPixel ? -0.5 : 0;
  auto corner = [&](int64_t column) { // x and y of the first corner, then of the second
    Value place = sliceDim(emit, node.value(1), 1, column, 1);
    return b.offset(b.scale(reshape(emit, place, {regions}), scale), shift);
  };
  Value start = corner(1 - dim), length = b.sub(corner(3 - dim), start);
  if (!halfPixel)
    length = b.maximum(length, b.constantLike(length, 1));
  Value bin = b.scale(length, 1 / double(bins[dim]));
  const Shape shape = {regions, count};
  Value number = castTo(emit, b.iota(emit.getI64Type(), shape, 1), elementOf(bin));
  Value steps = b.scale(b.offset(number, 0.5), 1 / double(samples));
  Value place = b.add(broadcastAlong(emit, start, shape, {0}),
                      b.mul(broadcastAlong(emit, bin, shape, {0}), steps));
  // Up to one element beyond the image its edge counts, further away nothing does.
  Value inside = arith::AndIOp::create(emit, b.compare(arith::CmpFPredicate::OGE, place, -1.0),
                                       b.compare(arith::CmpFPredicate::OLE, place, double(size)));
  place = b.minimum(b.maximum(place, b.constantLike(place, 0)),
                    b.constantLike(place, double(size - 1)));
  std::vector<Tap> taps = linearTaps(emit, place, size);
  for (Tap &tap : taps)
    tap.weight = b.selectOr(inside, tap.weight, 0.0);
  return taps;
}

/// The mean of a bin's samples, or the largest of what these are made of.
Value RegionReader::pool(Value rows, ArrayRef<Tap> taps, int64_t regions, int64_t channels) {
  const Shape split = {regions, channels, bins[0], samples, bins[1], samples};
  if (!takesMax)
    return b.scale(b.sum(reshape(emit, sumTaps(emit, rows, taps), split), {3, 5}),
                   1 / double(samples * samples));
  Value most;
  for (const Tap &tap : taps) {
    Value taken = takeTap(emit, rows, tap);
    most = most ? b.maximum(most, taken) : taken;
  }
  return b.reduce(graph::ReduceKind::Max, reshape(emit, most, split), {3, 5});
}

LogicalResult RegionReader::run() {
  if (failed(check()))
    return failure();
  const Shape x = node.input(0).shape();
  const int64_t regions = node.input(1).shape()[0];
  const int64_t down = bins[0] * samples, across = bins[1] * samples;
  const Shape grid = {regions, down, across}, flat = {regions, down * across};
  auto spread = [&](std::vector<Tap> taps, int64_t dim) {
    for (Tap &tap : taps)
      for (Value *part : {&tap.index, &tap.weight})
        *part = reshape(emit, broadcastAlong(emit, *part, grid, {0, dim}), flat);
    return taps;
  };
  auto taps = mergeTaps(emit, spread(tapsAlong(0, x[2]), 1), spread(tapsAlong(1, x[3]), 2), x[3]);
  Value own = gather(emit, node.value(0), node.value(2), 0);
  Value rows = reshape(emit, own, {regions, x[1], x[2] * x[3]});
  return node.define(pool(rows, taps, regions, x[1]));
}

static LogicalResult convertRoiAlign(NodeConverter &node) { return RegionReader(node).run(); }

namespace {
/// A convolution of two dimensions whose elements are looked up away from their places.
struct Deformed {
  Shape x, weight, offset; ///< [n,c,h,w], [out,c/groups,kh,kw], [n,2*kh*kw*parts,oh,ow]
  int64_t groups, parts;   ///< of channels: for the weight, for the offsets
  Shape strides, dilations, pads;

  int64_t taps() const { return weight[2] * weight[3]; }
  int64_t places() const { return offset[2] * offset[3]; }
};
} // namespace

static FailureOr<Deformed> readDeformed(NodeConverter &node) {
  Deformed d{node.input(0).shape(),
             node.input(1).shape(),
             node.input(2).shape(),
             node.attrInt("group", 1),
             node.attrInt("offset_group", 1),
             node.attrInts("strides").value_or(Shape(2, 1)),
             node.attrInts("dilations").value_or(Shape(2, 1)),
             node.attrInts("pads").value_or(Shape(4, 0))};
  auto isSmall = [](int64_t n) { return n >= 1 && n <= kMaxEvaluated; };
  const bool fits = d.x.size() == 4 && d.weight.size() == 4 && d.offset.size() == 4 &&
                    isSmall(d.groups) && isSmall(d.parts) && d.strides.size() == 2 &&
                    d.dilations.size() == 2 && d.pads.size() == 4 &&
                    llvm::all_of(d.strides, isSmall) && llvm::all_of(d.dilations, isSmall) &&
                    llvm::all_of(d.pads, [&](int64_t n) { return n == 0 || isSmall(n); });
  if (!fits || d.x[1] != d.weight[1] * d.groups || d.weight[0] % d.groups != 0 ||
      d.x[1] % d.parts != 0 || d.offset[0] != d.x[0] || d.offset[1] != 2 * d.taps() * d.parts)
    return LogicalResult(node.error() << "operands of shapes that do not fit, or no images");
  for (int i = 0; i < 2; ++i) {
    const int64_t extent = (d.weight[i + 2] - 1) * d.dilations[i] + 1;
    const int64_t room = d.x[i + 2] + d.pads[i] + d.pads[i + 2] - extent;
    if (room < 0 || d.offset[i + 2] != room / d.strides[i] + 1)
      return LogicalResult(node.error() << "offsets of a shape that does not fit");
  }
  const Shape mask = {d.x[0], d.taps() * d.parts, d.offset[2], d.offset[3]};
  if (!isa<FloatType>(node.input(0).element()) || (node.has(4) && node.input(4).shape() != mask) ||
      (node.has(3) && node.input(3).shape() != Shape{d.weight[0]}))
    return LogicalResult(node.error() << "a mask or bias of a shape that does not fit");
  if (!fitsConstant(node.input(0).element(), {d.taps(), d.places()}) ||
      failed(node.checkShape({d.x[0], d.x[1], d.taps(), d.places()})))
    return LogicalResult(node.error() << "is too large");
  return d;
}

/// Where elements are looked up along dimension `dim`, [n * parts, taps * places].
static Value deformedPlaces(NodeConverter &node, const Deformed &d, int64_t dim) {
  Emitter &emit = node.emit;
  const Type element = node.input(0).element();
  HostTensor regular(element, {d.taps(), d.places()}, {d.taps(), d.places()});
  for (int64_t tap = 0; tap < d.taps(); ++tap)
    for (int64_t place = 0; place < d.places(); ++place) {
      const int64_t inKernel = dim == 0 ? tap / d.weight[3] : tap % d.weight[3];
      const int64_t inResult = dim == 0 ? place / d.offset[3] : place % d.offset[3];
      regular.floats[tap * d.places() + place] =
          double(inResult * d.strides[dim] + inKernel * d.dilations[dim] - d.pads[dim]);
    }
  regular.compress();
  const int64_t batch = d.x[0] * d.parts;
  Value offsets = reshape(emit, node.value(2), {batch, d.taps(), 2, d.places()});
  Value own = reshape(emit, sliceDim(emit, offsets, 2, dim, 1), {batch, d.taps(), d.places()});
  Value base = broadcastAlong(emit, toValue(emit, emit.getLoc(), regular),
                              tensorType(own).getShape(), {1, 2});
  return reshape(emit, arith::AddFOp::create(emit, own, base), {batch, d.taps() * d.places()});
}

static LogicalResult convertDeformConv(NodeConverter &node) {
  auto read = readDeformed(node);
  if (failed(read))
    return failure();
  const Deformed &d = *read;
  Emitter &emit = node.emit;
  const int64_t batch = d.x[0] * d.parts, count = d.taps() * d.places();
  auto taps = mergeTaps(emit, linearTaps(emit, deformedPlaces(node, d, 0), d.x[2]),
                        linearTaps(emit, deformedPlaces(node, d, 1), d.x[3]), d.x[3]);
  const int64_t channels = d.x[1] / d.parts;
  Value found =
      sumTaps(emit, reshape(emit, node.value(0), {batch, channels, d.x[2] * d.x[3]}), taps);
  if (node.has(4)) {
    Value mask = reshape(emit, node.value(4), {batch, count});
    found = arith::MulFOp::create(emit, found,
                                  broadcastAlong(emit, mask, {batch, channels, count}, {0, 2}));
  }
  found = reshape(emit, found, {d.x[0], d.groups, d.weight[1], d.taps(), d.places()});
  Value weight =
      reshape(emit, node.value(1), {d.groups, d.weight[0] / d.groups, d.weight[1], d.taps()});
  Value result = contract(emit, found, {0, 1, 3, 4, 5}, weight, {1, 2, 3, 4}, {0, 1, 2, 5});
  const Shape shape = {d.x[0], d.weight[0], d.offset[2], d.offset[3]};
  result = reshape(emit, result, shape);
  if (node.has(3))
    result = arith::AddFOp::create(emit, result, broadcastAlong(emit, node.value(3), shape, {1}));
  return node.define(result);
}

void addRegionConverters(ConverterTable &table) {
  table["RoiAlign"] = {convertRoiAlign, 3};
  table["DeformConv"] = {convertDeformConv, 3};
}

} // namespace dtc::import
