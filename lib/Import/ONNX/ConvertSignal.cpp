// Windows of signals, and Fourier transforms as products with the matrix of their factors.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace dtc::import {

static LogicalResult convertWindow(NodeConverter &node) {
  auto size = node.scalarInt(0, "size");
  if (failed(size))
    return failure();
  Type element = elementType(node.emit.getContext(),
                             node.attrInt("output_datatype", onnx::TensorProto::FLOAT));
  if (!isa_and_present<FloatType>(element) || *size < 1 || !fitsConstant(element, {*size}))
    return node.error() << "has a bad size or type: " << *size;
  // Terms of the cosines of 0, 1 and 2 times the angle.
  double terms[3] = {0.5, -0.5, 0};
  if (node.op() == "HammingWindow")
    terms[0] = 25.0 / 46, terms[1] = -21.0 / 46;
  else if (node.op() == "BlackmanWindow")
    terms[0] = 0.42, terms[2] = 0.08;
  const double period = node.attrInt("periodic", 1) ? *size : *size - 1;
  auto window = std::make_shared<HostTensor>(element, Shape{*size}, Shape{*size});
  for (int64_t i = 0; i < *size; ++i) {
    const double angle = period > 0 ? 2 * std::numbers::pi * double(i) / period : 0;
    window->floats[i] =
        roundTo(element, terms[0] + terms[1] * std::cos(angle) + terms[2] * std::cos(2 * angle));
  }
  window->compress();
  return node.define(Tensor(Host(window)));
}

/// The bins of a spectrum between which mel bands lie: one more at each end than there are bands.
static std::vector<int64_t> melEdges(int64_t bands, int64_t length, int64_t rate, double low,
                                     double high) {
  auto toMel = [](double frequency) { return 2595 * std::log10(1 + frequency / 700); };
  const double step = (toMel(high) - toMel(low)) / double(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double frequency = 700 * (std::pow(10, (toMel(low) + double(i) * step) / 2595) - 1);
    edges.push_back(int64_t(std::floor((double(length) + 1) * frequency / double(rate))));
  }
  return edges;
}

/// Bands that rise from one edge to the next one and fall to the one after it.
static LogicalResult convertMelWeights(NodeConverter &node) {
  auto bands = node.scalarInt(0, "num_mel_bins"), length = node.scalarInt(1, "dft_length"),
       rate = node.scalarInt(2, "sample_rate");
  auto low = node.scalarFloat(3, "lower_edge_hertz"),
       high = node.scalarFloat(4, "upper_edge_hertz");
  if (failed(bands) || failed(length) || failed(rate) || failed(low) || failed(high))
    return failure();
  Type element = elementType(node.emit.getContext(),
                             node.attrInt("output_datatype", onnx::TensorProto::FLOAT));
  if (!isa_and_present<FloatType>(element) || *bands < 1 || *length < 1 || *rate < 1 ||
      !(*low >= 0 && *high > *low && *high <= double(*rate)) ||
      !fitsConstant(element, {*length / 2 + 1, *bands}))
    return node.error() << "has bad sizes, frequencies or a bad type";
  const int64_t bins = *length / 2 + 1;
  const std::vector<int64_t> edges = melEdges(*bands, *length, *rate, *low, *high);
  if (edges.back() > bins)
    return node.error() << "has frequencies above half the sample rate";
  auto weights = std::make_shared<HostTensor>(element, Shape{bins, *bands}, Shape{bins, *bands});
  if (failed(node.chargeFolded(Tensor(Host(weights)))))
    return failure();
  for (int64_t band = 0; band < *bands; ++band) {
    const int64_t begin = edges[band], middle = edges[band + 1], end = edges[band + 2];
    for (int64_t bin = begin; bin < std::max(end, middle + 1) && bin < bins; ++bin) {
      const double rising = middle > begin ? double(bin - begin) / double(middle - begin) : 1,
                   falling = end > middle ? double(end - bin) / double(end - middle) : 1;
      weights->floats[bin * *bands + band] = roundTo(element, std::min(rising, falling));
    }
  }
  weights->compress();
  return node.define(Tensor(Host(weights)));
}

namespace {
/// A transform of `length` numbers that have one part (real) or two, to `bins` of them.
struct Transform {
  int64_t length, bins, parts;
  bool inverse = false;
  int64_t ofReal = 0; ///< where its input is the first half of that of so many real numbers

  int64_t period() const { return ofReal ? ofReal : length; }
  /// How often a bin counts: the other half are the conjugates of those in the middle.
  double weight(int64_t bin) const { return ofReal && bin > 0 && 2 * bin != ofReal ? 2 : 1; }
};
} // namespace

/// The transform's factors as [length, parts, bins, parts of the result].
static FailureOr<Value> factors(NodeConverter &node, Type element, const Transform &asked) {
  const Shape shape = {asked.length, asked.parts, asked.bins, asked.ofReal ? 1 : 2};
  if (!fitsConstant(element, shape))
    return LogicalResult(node.error() << "transforms too many numbers: " << asked.length);
  auto matrix = std::make_shared<HostTensor>(element, shape, shape);
  if (failed(node.chargeFolded(Tensor(Host(matrix)))))
    return failure();
  const double sign = asked.inverse ? 1 : -1,
               scale = asked.inverse ? 1.0 / double(asked.period()) : 1;
  int64_t at = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    const double turns = double(index[0] * index[2] % asked.period()) / double(asked.period());
    const double angle = 2 * std::numbers::pi * turns, size = scale * asked.weight(index[0]);
    const double cosine = std::cos(angle) * size, sine = sign * std::sin(angle) * size;
    const bool fromImaginary = index[1] != 0, toImaginary = index[3] != 0;
    matrix->floats[at++] = roundTo(element, fromImaginary == toImaginary ? cosine
                                            : fromImaginary              ? -sine
                                                                         : sine);
  });
  return toValue(node.emit, node.emit.getLoc(), *matrix);
}

/// The transform along `axis` of a tensor whose last dimension has the parts.
static FailureOr<Value> transform(NodeConverter &node, Value x, int64_t axis,
                                  const Transform &asked) {
  auto matrix = factors(node, elementOf(x), asked);
  if (failed(matrix))
    return failure();
  const int64_t rank = tensorType(x).getRank();
  Shape from;
  for (int64_t i = 0; i < rank; ++i)
    from.push_back(i);
  Shape to = from;
  to[axis] = rank;
  to[rank - 1] = rank + 1;
  return contract(node.emit, x, from, *matrix, {axis, rank - 1, rank, rank + 1}, to);
}

static LogicalResult convertDft(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  const int64_t rank = shape.size();
  if (rank < 2 || !isa<FloatType>(node.input(0).element()) || shape.back() > 2)
    return node.error() << "needs floats whose last dimension has a real and an imaginary part";
  int64_t given = node.attrInt("axis", node.opset < 20 ? 1 : -2);
  if (node.has(2)) {
    auto constant = node.scalarInt(2, "axis");
    if (failed(constant))
      return failure();
    given = *constant;
  }
  auto axis = node.axis(given, rank);
  if (failed(axis))
    return failure();
  if (*axis == rank - 1)
    return node.error() << "goes along the parts of numbers";
  int64_t length = shape[*axis];
  if (node.has(1)) {
    auto constant = node.scalarInt(1, "dft_length");
    if (failed(constant))
      return failure();
    length = *constant;
  }
  const bool onesided = node.attrInt("onesided", 0), inverse = node.attrInt("inverse", 0);
  if (onesided && inverse) { // half of what real numbers become
    const int64_t real = node.has(1) ? length : 2 * (shape[*axis] - 1);
    if (real < 1 || shape[*axis] != real / 2 + 1 || shape.back() != 2)
      return node.error() << "needs half of the numbers, and one, of the length " << real;
    auto result = transform(node, node.value(0), *axis, {shape[*axis], real, 2, true, real});
    return failed(result) ? failure() : node.define(*result);
  }
  if (length < 1 || length > INT32_MAX || (onesided && shape.back() != 1))
    return node.error() << "has a bad length, or is onesided and complex";
  Value x = sliceDim(node.emit, node.value(0), *axis, 0, std::min(length, shape[*axis]));
  Shape low(rank, 0), high(rank, 0);
  high[*axis] = std::max<int64_t>(length - shape[*axis], 0);
  x = pad(node.emit, x, low, high, 0);
  auto result = transform(node, x, *axis,
                          {length, onesided ? length / 2 + 1 : length, shape.back(), inverse});
  return failed(result) ? failure() : node.define(*result);
}

static LogicalResult convertStft(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  auto step = node.scalarInt(1, "frame_step");
  if (failed(step))
    return failure();
  int64_t length = node.has(2) && node.input(2).rank() == 1 ? node.input(2).shape()[0] : 0;
  if (node.has(3)) {
    auto given = node.scalarInt(3, "frame_length");
    if (failed(given))
      return failure();
    length = *given;
  }
  if (shape.size() != 3 || shape[2] > 2 || !isa<FloatType>(node.input(0).element()) || *step < 1 ||
      length < 1 || length > shape[1] || (node.has(2) && node.input(2).shape() != Shape{length}))
    return node.error() << "has a signal, a step or a window of bad sizes";
  const int64_t count = (shape[1] - length) / *step + 1;
  if (!fitsConstant(node.emit.getI64Type(), {count, length}))
    return node.error() << "has too many frames: " << count;
  std::vector<int64_t> at;
  for (int64_t frame = 0; frame < count; ++frame)
    for (int64_t i = 0; i < length; ++i)
      at.push_back(frame * *step + i);
  Host positions = HostTensor::ofInts(node.emit.getI64Type(), {count, length}, std::move(at));
  if (failed(node.chargeFolded(Tensor(positions))))
    return failure();
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value frames = gatherAtConstants(node.emit, node.value(0), *positions, 1);
  if (node.has(2)) {
    Value window = broadcastAlong(node.emit, node.value(2), tensorType(frames).getShape(), {2});
    frames = b.mul(frames, window);
  }
  const bool onesided = node.attrInt("onesided", 1) && shape[2] == 1;
  auto result =
      transform(node, frames, 2, {length, onesided ? length / 2 + 1 : length, shape[2], false});
  return failed(result) ? failure() : node.define(*result);
}

void addSignalConverters(ConverterTable &table) {
  for (const char *op : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    table[op] = convertWindow;
  table["MelWeightMatrix"] = {convertMelWeights, 5};
  table["DFT"] = convertDft;
  table["STFT"] = {convertStft, 2};
}

} // namespace dtc::import
