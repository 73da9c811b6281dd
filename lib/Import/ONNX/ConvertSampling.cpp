// GridSample and AffineGrid: elements at computed places between others.
//
// Every sample looks up its own elements, so that a batch stays one that can be divided.
#include "GraphBuilder.h"
#include "Taps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

namespace {
enum class Mode { Nearest, Linear, Cubic };
enum class Padding { Zeros, Border, Reflection };

class Sampler {
public:
  explicit Sampler(NodeConverter &node)
      : node(node), emit(node.emit), b(node.emit, node.emit.getLoc()) {}

  LogicalResult run();

private:
  LogicalResult readModes();
  Value unnormalize(Value grid, int64_t size);
  Value reflect(Value x, int64_t size);
  Value inside(Value x, int64_t size);
  /// A place that is a whole number as an index, and how much the padding leaves of it.
  Tap tapAt(Value place, Value weight, int64_t size);
  std::vector<Tap> tapsOf(Value place, int64_t size);
  Value clip(Value x, int64_t size) {
    return b.minimum(b.maximum(x, b.constantLike(x, 0)), b.constantLike(x, double(size - 1)));
  }

  NodeConverter &node;
  Emitter &emit;
  TensorBuilder b;
  Mode mode = Mode::Linear;
  Padding padding = Padding::Zeros;
  bool corners = false;
};
} // namespace

LogicalResult Sampler::readModes() {
  const std::string how = node.attrString("mode", "linear"),
                    around = node.attrString("padding_mode", "zeros");
  corners = node.attrInt("align_corners", 0);
  if (how == "nearest")
    mode = Mode::Nearest;
  else if (how == "cubic" || how == "bicubic")
    mode = Mode::Cubic;
  else if (how != "linear" && how != "bilinear")
    return node.error() << "has an unknown mode: " << how;
  if (around == "border")
    padding = Padding::Border;
  else if (around == "reflection")
    padding = Padding::Reflection;
  else if (around != "zeros")
    return node.error() << "has an unknown padding_mode: " << around;
  return success();
}

/// -1 and 1 are the first and last elements, or the ends of these.
Value Sampler::unnormalize(Value grid, int64_t size) {
  Value from = b.offset(grid, 1);
  return corners ? b.scale(from, double(size - 1) / 2)
                 : b.offset(b.scale(from, double(size) / 2), -0.5);
}

/// Mirrored at the first and last elements, or at their ends, as often as it takes.
Value Sampler::reflect(Value x, int64_t size) {
  const double low = corners ? 0 : -0.5, span = corners ? size - 1 : size;
  if (span == 0)
    return b.constantLike(x, 0);
  Value away = b.unary<math::AbsFOp>(b.offset(x, -low));
  Value times = b.unary<math::FloorOp>(b.scale(away, 1 / span));
  Value rest = b.sub(away, b.scale(times, span));
  Value half = b.scale(times, 0.5);
  Value even = b.compare(arith::CmpFPredicate::OEQ, half, b.unary<math::FloorOp>(half));
  return b.offset(b.select(even, rest, b.sub(b.constantLike(rest, span), rest)), low);
}

Value Sampler::inside(Value x, int64_t size) {
  Value low = b.compare(arith::CmpFPredicate::OGE, x, 0.0);
  Value high = b.compare(arith::CmpFPredicate::OLE, x, double(size - 1));
  return arith::AndIOp::create(emit, low, high);
}

Tap Sampler::tapAt(Value place, Value weight, int64_t size) {
  if (padding == Padding::Zeros)
    weight = b.selectOr(inside(place, size), weight, 0.0);
  else if (padding == Padding::Reflection && mode == Mode::Cubic)
    place = reflect(place, size);
  return {castTo(emit, clip(place, size), emit.getI64Type()), weight};
}

std::vector<Tap> Sampler::tapsOf(Value place, int64_t size) {
  Value one = b.constantLike(place, 1);
  if (mode == Mode::Nearest)
    return {tapAt(b.unary<math::RoundEvenOp>(place), one, size)};
  Value low = b.unary<math::FloorOp>(place), share = b.sub(place, low);
  if (mode == Mode::Linear)
    return {tapAt(low, b.sub(one, share), size), tapAt(b.offset(low, 1), share, size)};
  constexpr double kSlope = -0.75;
  std::vector<Tap> taps;
  for (int64_t i = -1; i <= 2; ++i) { // cubic convolution at the distance from each
    Value t = b.unary<math::AbsFOp>(b.offset(share, double(-i)));
    Value square = b.square(t), cube = b.mul(square, t);
    Value weight;
    if (i == 0 || i == 1) {
      weight = b.add(b.scale(cube, kSlope + 2), b.scale(square, -(kSlope + 3)));
      weight = b.offset(weight, 1);
    } else {
      weight = b.sub(b.scale(cube, kSlope), b.scale(square, 5 * kSlope));
      weight = b.offset(b.add(weight, b.scale(t, 8 * kSlope)), -4 * kSlope);
    }
    taps.push_back(tapAt(b.offset(low, double(i)), weight, size));
  }
  return taps;
}

LogicalResult Sampler::run() {
  const Shape x = node.input(0).shape(), grid = node.input(1).shape();
  const int64_t rank = x.size(), n = rank - 2;
  if (n < 1 || n > 3 || int64_t(grid.size()) != rank || grid.back() != n || grid[0] != x[0] ||
      !isa<FloatType>(node.input(0).element()) ||
      node.input(0).element() != node.input(1).element())
    return node.error() << "operands of shapes or types that do not fit";
  if (failed(readModes()))
    return failure();
  const int64_t count = product(ArrayRef(grid).drop_front().drop_back());
  const int64_t space = product(ArrayRef(x).drop_front(2));
  Value places = reshape(emit, node.value(1), {x[0], count, n});
  std::vector<Tap> taps;
  for (int64_t dim = 0; dim < n; ++dim) { // the last coordinate is that of the first dimension
    Value place = reshape(emit, sliceDim(emit, places, 2, n - 1 - dim, 1), {x[0], count});
    const int64_t size = x[dim + 2];
    place = unnormalize(place, size);
    if (mode != Mode::Cubic && padding == Padding::Border)
      place = clip(place, size);
    else if (mode != Mode::Cubic && padding == Padding::Reflection)
      place = clip(reflect(place, size), size);
    std::vector<Tap> own = tapsOf(place, size);
    taps = dim == 0 ? std::move(own) : mergeTaps(emit, taps, own, size);
  }
  Value sum = sumTaps(emit, reshape(emit, node.value(0), {x[0], x[1], space}), taps);
  Shape shape = {x[0], x[1]};
  shape.append(grid.begin() + 1, grid.end() - 1);
  return node.define(reshape(emit, sum, shape));
}

static LogicalResult convertGridSample(NodeConverter &node) { return Sampler(node).run(); }

/// The places of `size` elements between -1 and 1.
static Host placesOf(Type element, int64_t size, bool corners) {
  auto places = std::make_shared<HostTensor>(element, Shape{size}, Shape{size});
  for (int64_t i = 0; i < size; ++i)
    places->floats[i] = roundTo(element, !corners   ? (2 * double(i) + 1) / double(size) - 1
                                         : size > 1 ? 2 * double(i) / double(size - 1) - 1
                                                    : 0);
  places->compress();
  return places;
}

/// theta[batch, n, n + 1] times the places (x, y, ..., 1) of each output.
static LogicalResult convertAffineGrid(NodeConverter &node) {
  auto size = node.ints(1, "size");
  if (failed(size) || failed(node.checkShape(*size)))
    return failure();
  const int64_t n = int64_t(size->size()) - 2;
  const Type element = node.input(0).element();
  if (n < 1 || n > 3 || !isa<FloatType>(element) ||
      node.input(0).shape() != Shape{(*size)[0], n, n + 1})
    return node.error() << "operands of shapes that do not fit";
  Emitter &emit = node.emit;
  TensorBuilder b(emit, emit.getLoc());
  Shape space(size->begin() + 2, size->end()), shape = {(*size)[0]};
  shape.append(space);
  shape.push_back(n);
  Value theta = node.value(0);
  auto factor = [&](int64_t column) { // [batch, n] along the first and last dimensions
    Value part = reshape(emit, sliceDim(emit, theta, 2, column, 1), {shape[0], n});
    return broadcastAlong(emit, part, shape, {0, n + 1});
  };
  Value sum = factor(n);
  for (int64_t dim = 0; dim < n; ++dim) {
    if (!fitsConstant(element, {space[dim]}))
      return node.error() << "has too large a size: " << space[dim];
    Host places = placesOf(element, space[dim], node.attrInt("align_corners", 0));
    Value along = broadcastAlong(emit, toValue(emit, emit.getLoc(), *places), shape, {dim + 1});
    sum = b.add(sum, b.mul(factor(n - 1 - dim), along));
  }
  return node.define(sum);
}

void addSamplingConverters(ConverterTable &table) {
  table["GridSample"] = {convertGridSample, 2};
  table["AffineGrid"] = {convertAffineGrid, 2};
}

} // namespace dtc::import
