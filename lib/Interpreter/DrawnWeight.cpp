#include "DrawnWeight.h"

#include "Kernels.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace dtc::interpreter {

static uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double drawn(uint64_t seed, uint64_t index) {
  const uint64_t word = mixed(seed + (index + 1) * 0x9e3779b97f4a7c15);
  return static_cast<double>(word >> 11) * 0x1p-52 - 1.0;
}

uint64_t seedOf(StringRef name) {
  uint64_t seed = 0xcbf29ce484222325; // FNV-1a
  for (char letter : name)
    seed = (seed ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return mixed(seed);
}

DrawnWeight::DrawnWeight(StringRef name, RankedTensorType viewType, ArrayRef<int64_t> fileShape,
                         double nudgeBy)
    : seed(seedOf(name)), view(viewType), nudge(nudgeBy), isVector(fileShape.size() < 2) {
  // A kernel [out, in, 3, 3] is a matrix of [out, (in 3 3)], experts [8, in, out] are of
  // [(8 in), out].
  const size_t rowsFrom = fileShape.size() > 3 ? 1 : fileShape.empty() ? 0 : fileShape.size() - 1;
  rows = productOf(fileShape.take_front(rowsFrom));
  columns = productOf(fileShape.drop_front(rowsFrom));
  period = std::max<int64_t>(std::min(rows, columns), 1);
  shift = static_cast<int64_t>(seed % static_cast<uint64_t>(period));
  rootOfSize = std::sqrt(double(std::max(rows, columns)));
}

constexpr uint64_t kRows = 1, kColumns = 2, kExtra = 3, kNudge = 4;

double DrawnWeight::nudged(double value, int64_t index) const {
  return nudge == 0 ? value : value * (1 + nudge * drawn(seed ^ kNudge, index));
}

double DrawnWeight::rowFactor(int64_t row) const {
  return nudged(3 * drawn(seed ^ kRows, row) / rootOfSize, row);
}

double DrawnWeight::columnFactor(int64_t column) const { return drawn(seed ^ kColumns, column); }

double DrawnWeight::extra(Place place) const {
  const int64_t index = place.row + place.column;
  return nudged(2 * drawn(seed ^ kExtra, index), index);
}

bool DrawnWeight::hasExtra(Place place) const {
  return (place.row + shift) % period == place.column % period;
}

/// By the longer of its sides.
std::vector<DrawnWeight::Place> DrawnWeight::extraPlaces() const {
  std::vector<Place> places(std::max(rows, columns));
  int64_t other = rows >= columns ? shift % period : (period - shift) % period;
  for (int64_t i = 0; i < int64_t(places.size()); ++i) {
    places[i] = rows >= columns ? Place{i, other} : Place{other, i};
    other = other + 1 == period ? 0 : other + 1;
  }
  return places;
}

/// Scales and biases are above 0, as variances have to be.
double DrawnWeight::at(int64_t position) const {
  if (isVector)
    return nudged(0.55 + 0.45 * drawn(seed, position), position);
  const Place place{position / columns, position % columns};
  const double product = rowFactor(place.row) * columnFactor(place.column);
  return hasExtra(place) ? product + extra(place) : product;
}

Tensor DrawnWeight::part(RankedTensorType type, ArrayRef<int64_t> offsets,
                         ArrayRef<int64_t> strides) const {
  Tensor result(type);
  Strides from = stridesOf(view.getShape()), to = stridesOf(type.getShape());
  int64_t start = 0;
  for (size_t dim = 0; dim < from.size(); ++dim) {
    start += offsets[dim] * from[dim];
    from[dim] *= strides[dim];
  }
  forEachIndex(
      type.getShape(), to, from,
      [&](int64_t target, int64_t source) { result.floats[target] = at(source); }, 0, start);
  return result;
}

Tensor DrawnWeight::whole() const {
  const SmallVector<int64_t> zeros(view.getRank(), 0), ones(view.getRank(), 1);
  return part(view, zeros, ones);
}

Tensor DrawnWeight::rowsAt(graph::GatherOp op, const Tensor &indices) const {
  Tensor result(cast<RankedTensorType>(op.getResult().getType()));
  ArrayRef<int64_t> shape = view.getShape();
  const int64_t before = productOf(shape.take_front(op.getAxis())), rowCount = shape[op.getAxis()],
                behind = productOf(shape.drop_front(op.getAxis() + 1));
  double *out = result.floats.data();
  for (int64_t i = 0; i < before; ++i)
    for (int64_t row : indices.ints)
      for (int64_t j = 0; j < behind; ++j, ++out)
        *out = row < 0 || row >= rowCount ? 0 : at((i * rowCount + row) * behind + j);
  return result;
}

std::optional<size_t> DrawnWeight::rowDims() const {
  int64_t product = 1;
  for (size_t dims = 0; dims <= size_t(view.getRank()); ++dims) {
    if (product == rows && productOf(view.getShape().drop_front(dims)) == columns)
      return dims;
    if (dims < size_t(view.getRank()))
      product *= view.getShape()[dims];
  }
  return std::nullopt;
}

namespace {

/// Dimensions, and the strides that they have in one tensor or two.
struct Dims {
  SmallVector<int64_t> shape, strides, resultStrides = {};
};

/// A product with a matrix: which of its sides is summed over, and where elements of the other
/// operand and the result lie.
struct MatrixProduct {
  bool sumsRows = false;
  Dims summed; ///< of the matrix, with the strides of the other operand
  Dims free;   ///< of the matrix, with those of the result
  Dims others; ///< the other operand's free ones, with those of both
};

/// Positions of all indices of these dimensions in row-major order.
SmallVector<int64_t> positionsOf(const Dims &dims) {
  SmallVector<int64_t> result;
  if (dims.shape.empty())
    return {0};
  const Strides none(dims.shape.size(), 0);
  forEachIndex(dims.shape, dims.strides, none, [&](int64_t at, int64_t) { result.push_back(at); });
  return result;
}

} // namespace

static std::optional<MatrixProduct> matrixProduct(graph::ContractOp op, bool isLhs,
                                                  size_t rowDims) {
  ArrayRef<int64_t> own = isLhs ? op.getLhsIndices() : op.getRhsIndices(),
                    other = isLhs ? op.getRhsIndices() : op.getLhsIndices(),
                    result = op.getResultIndices();
  Value matrix = isLhs ? op.getLhs() : op.getRhs(), factor = isLhs ? op.getRhs() : op.getLhs();
  const Strides otherStrides = stridesOf(graph::shapeOf(factor)),
                resultStrides = stridesOf(graph::shapeOf(op.getResult()));
  auto strideIn = [](ArrayRef<int64_t> indices, const Strides &strides, int64_t index) {
    return strides[llvm::find(indices, index) - indices.begin()];
  };
  MatrixProduct product;
  for (auto [dim, index] : llvm::enumerate(own)) {
    const bool isSummed = !llvm::is_contained(result, index), isRow = dim < rowDims;
    if (isSummed != llvm::is_contained(other, index)) // of a batch
      return std::nullopt;
    if (dim == 0 || dim == rowDims)
      product.sumsRows = product.sumsRows || (isSummed && isRow);
    if (isSummed != (product.sumsRows == isRow))
      return std::nullopt;
    Dims &dims = isSummed ? product.summed : product.free;
    dims.shape.push_back(graph::shapeOf(matrix)[dim]);
    dims.strides.push_back(isSummed ? strideIn(other, otherStrides, index)
                                    : strideIn(result, resultStrides, index));
  }
  for (auto [dim, index] : llvm::enumerate(other))
    if (llvm::is_contained(result, index)) {
      product.others.shape.push_back(graph::shapeOf(factor)[dim]);
      product.others.strides.push_back(otherStrides[dim]);
      product.others.resultStrides.push_back(strideIn(result, resultStrides, index));
    }
  return product;
}

std::optional<double> DrawnWeight::stepsOf(graph::ContractOp op, bool isLhs) const {
  auto dims = rowDims();
  if (isVector || !dims || !matrixProduct(op, isLhs, *dims))
    return std::nullopt;
  Value factor = isLhs ? op.getRhs() : op.getLhs();
  const auto size = double(cast<RankedTensorType>(op.getResult().getType()).getNumElements()),
             elements = double(cast<RankedTensorType>(factor.getType()).getNumElements());
  return 3 * (size + elements) + 6 * double(rows + columns);
}

Tensor DrawnWeight::product(graph::ContractOp op, bool isLhs, const Tensor &other) const {
  Tensor result(cast<RankedTensorType>(op.getResult().getType()));
  const MatrixProduct product = *matrixProduct(op, isLhs, *rowDims());
  const SmallVector<int64_t> otherAt = positionsOf(product.summed),
                             resultAt = positionsOf(product.free);
  std::vector<double> ofRows(rows), ofColumns(columns);
  for (int64_t row = 0; row < rows; ++row)
    ofRows[row] = rowFactor(row);
  for (int64_t column = 0; column < columns; ++column)
    ofColumns[column] = columnFactor(column);
  struct Extra {
    double value;
    int64_t from, to; ///< positions in the other operand and the result
  };
  std::vector<Extra> extras;
  for (Place at : extraPlaces())
    extras.push_back({extra(at), otherAt[product.sumsRows ? at.row : at.column],
                      resultAt[product.sumsRows ? at.column : at.row]});
  const auto &summed = product.sumsRows ? ofRows : ofColumns,
             &free = product.sumsRows ? ofColumns : ofRows;
  auto multiply = [&](int64_t in, int64_t out) {
    const double *from = other.floats.data() + in;
    double *to = result.floats.data() + out;
    double sum = 0;
    for (size_t i = 0; i < summed.size(); ++i)
      sum += summed[i] * from[otherAt[i]];
    for (size_t i = 0; i < free.size(); ++i)
      to[resultAt[i]] = free[i] * sum;
    for (const Extra &each : extras)
      to[each.to] += each.value * from[each.from];
  };
  if (product.others.shape.empty())
    multiply(0, 0);
  else
    forEachIndex(product.others.shape, product.others.strides, product.others.resultStrides,
                 multiply);
  return result;
}

} // namespace dtc::interpreter
