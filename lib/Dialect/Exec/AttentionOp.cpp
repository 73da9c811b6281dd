#include "dtc/Dialect/Exec/Exec.h"

using namespace mlir;

namespace dtc::exec {
namespace {

constexpr size_t kRank = 4;

/// One dimension of a grid.
struct Dim {
  int64_t size, stride;
};

/// Dimensions from the largest stride on. Those that lie densely are joined, those of size 1 gone.
SmallVector<Dim> joinedDims(PlaceAttr place) {
  SmallVector<Dim> dims, joined;
  for (auto [size, stride] : llvm::zip_equal(place.getShape(), place.getStrides()))
    if (size != 1)
      dims.push_back({size, stride});
  llvm::stable_sort(dims, [](const Dim &a, const Dim &b) { return a.stride > b.stride; });
  for (const Dim &dim : dims) {
    if (!joined.empty() && joined.back().stride == dim.stride * dim.size)
      joined.back() = {joined.back().size * dim.size, dim.stride};
    else
      joined.push_back(dim);
  }
  return joined;
}

/// The same range of elements of each of some equal rows of a tensor.
struct Columns {
  int64_t rows, begin, end;
};

/// Nothing where the part isn't of this form.
std::optional<Columns> columnsOf(PlaceAttr place, int64_t elements) {
  SmallVector<Dim> dims = joinedDims(place);
  int64_t width = 1, rows = 1;
  if (!dims.empty() && dims.back().stride == 1)
    width = dims.pop_back_val().size;
  if (!dims.empty()) {
    rows = dims.back().size;
    if (dims.size() > 1 || dims.back().stride * rows != elements)
      return std::nullopt;
  }
  int64_t begin = place.getOffset(), end = begin + width;
  return end <= elements / rows ? std::optional(Columns{rows, begin, end}) : std::nullopt;
}

/// Whether every element of a tensor is in one of the parts, and in no other.
bool makeUp(ArrayRef<PlaceAttr> parts, int64_t elements) {
  SmallVector<Columns> all;
  for (PlaceAttr part : parts) {
    std::optional<Columns> columns = columnsOf(part, elements);
    if (!columns)
      return false;
    all.push_back(*columns);
  }
  llvm::sort(all, [](const Columns &a, const Columns &b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const Columns &columns : all) {
    if (columns.rows != all.front().rows || columns.begin != end)
      return false;
    end = columns.end;
  }
  return !all.empty() && end * all.front().rows == elements;
}

LogicalResult verifyPlace(AttentionOp op, size_t tensor) {
  PlaceAttr place = op.placeOf(tensor);
  if (place.getShape().size() != place.getStrides().size())
    return op.emitOpError("has a place whose shape and strides differ in rank: ") << place;
  int64_t last = place.getOffset();
  for (auto [size, stride] : llvm::zip(place.getShape(), place.getStrides())) {
    if (size < 1 || stride < 1)
      return op.emitOpError("has a place of bad size or stride: ") << place;
    last += (size - 1) * stride;
  }
  auto type = cast<RankedTensorType>(op.valueOf(tensor).getType());
  if (place.getOffset() < 0 || last >= type.getNumElements())
    return op.emitOpError("has a place beyond the elements of ") << type << ": " << place;
  return success();
}

/// All but statistics and a bias are of one element type.
LogicalResult verifyTypes(AttentionOp op) {
  const size_t inputs = op.getInputs().size(), stats = op.getBackward() ? 4 : inputs + 1;
  Type type = getElementTypeOrSelf(op.valueOf(0));
  for (size_t i = 1; i < op.getPlaces().size(); ++i) {
    Type other = getElementTypeOrSelf(op.valueOf(i));
    bool isBias = i == op.numInputsBeforeBias() && op.hasBias();
    if (i != stats && !isBias && other != type)
      return op.emitOpError("has tensors of different element types: ") << type << ", " << other;
  }
  return success();
}

/// What is computed is written once, and so is every element of the results.
LogicalResult verifyResults(AttentionOp op) {
  SmallVector<SmallVector<PlaceAttr>> parts(op.getNumResults());
  for (auto [i, result] : llvm::enumerate(op.getInto()))
    parts[result].push_back(op.placeOf(op.getInputs().size() + i));
  for (auto [i, value] : llvm::enumerate(op.getResults()))
    if (!makeUp(parts[i], cast<RankedTensorType>(value.getType()).getNumElements()))
      return op.emitOpError("has a result that its parts don't make up: ") << i;
  return success();
}

/// Whether the shapes are those of attention: the first bad one, or the number of tensors.
size_t firstMisfit(AttentionOp op) {
  auto shapeOf = [&](size_t tensor) { return op.placeOf(tensor).getShape(); };
  for (size_t i = 0; i < 3; ++i)
    if (shapeOf(i).size() != kRank)
      return i;
  ArrayRef<int64_t> q = shapeOf(0), k = shapeOf(1), v = shapeOf(2);
  using Shape = SmallVector<int64_t>;
  Shape query(q), output = {q[0], q[1], q[2], v[3]}, stats = {q[0], q[2], q[1]};
  SmallVector<Shape> wanted = {query, {q[0], k[1], k[2], q[3]}, {q[0], k[1], k[2], v[3]}};
  if (op.getBackward())
    wanted.append({output, stats, output});
  if (op.hasBias()) {
    Shape bias = {q[0], q[2], q[1], k[1]};
    ArrayRef<int64_t> given = shapeOf(op.numInputsBeforeBias());
    for (size_t dim = 0; dim + 1 < std::min(given.size(), kRank); ++dim)
      if (given[dim] == 1)
        bias[dim] = 1;
    wanted.push_back(bias);
  }
  if (op.getBackward())
    wanted.append({query, wanted[1], wanted[2]});
  else
    wanted.append({output, stats});
  for (auto [i, shape] : llvm::enumerate(wanted))
    if (shapeOf(i) != ArrayRef<int64_t>(shape))
      return i;
  return wanted.size();
}

} // namespace

Value AttentionOp::valueOf(size_t tensor) {
  size_t inputs = getInputs().size();
  return tensor < inputs ? getInputs()[tensor] : getResult(getInto()[tensor - inputs]);
}

LogicalResult AttentionOp::verify() {
  const size_t inputs = getInputs().size(), bare = numInputsBeforeBias();
  const size_t computed = getBackward() ? 3 : 2;
  if (inputs != bare && inputs != bare + 1)
    return emitOpError("has a wrong number of inputs: ") << inputs;
  if (getInto().size() != computed)
    return emitOpError("computes ") << computed << " tensors, but places: " << getInto().size();
  if (getPlaces().size() != inputs + computed)
    return emitOpError("needs a place for each of ")
           << inputs + computed << " tensors, got: " << getPlaces().size();
  for (int64_t result : getInto())
    if (result < 0 || result >= static_cast<int64_t>(getNumResults()))
      return emitOpError("has no such result: ") << result;
  for (size_t i = 0; i < getPlaces().size(); ++i)
    if (failed(verifyPlace(*this, i)))
      return failure();
  if (size_t misfit = firstMisfit(*this); misfit < getPlaces().size())
    return emitOpError("has a tensor whose shape doesn't fit the others: ") << placeOf(misfit);
  return failure(failed(verifyTypes(*this)) || failed(verifyResults(*this)));
}

} // namespace dtc::exec
