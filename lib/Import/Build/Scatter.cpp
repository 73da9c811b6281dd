#include "dtc/Import/Build/Scatter.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/GatherAt.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

#include <numeric>
#include <set>

using namespace mlir;

namespace dtc::import {

namespace {
/// Rows of `updates` that go to `rows` of a tensor of as many dimensions.
struct Writes {
  std::vector<int64_t> rows;
  Tensor updates;
};
} // namespace

/// To be called before a position is stored for each row.
static LogicalResult checkRows(Conversion &node, int64_t size) {
  if (fitsConstant(node.emit.getI64Type(), {size}))
    return success();
  return node.error() << "writes single rows into too many: " << size;
}

/// The first dimension of `tensor` at constant positions.
static FailureOr<Tensor> lookUp(Conversion &node, const Tensor &tensor, std::vector<int64_t> from) {
  const int64_t size = from.size();
  Host at = HostTensor::ofInts(node.emit.getI64Type(), {size}, std::move(from));
  return Tensor(gatherAtConstants(node.emit, node.value(tensor), *at, 0));
}

static FailureOr<Tensor> replaceRows(Conversion &node, const Tensor &data, const Writes &writes) {
  const int64_t size = data.shape()[0], count = writes.rows.size(), first = writes.rows[0];
  const bool isOneValue = writes.updates.host && writes.updates.host->isSplat();
  bool consecutive = true;
  std::set<int64_t> written;
  for (int64_t i = 0; i < count; ++i) {
    if (!written.insert(writes.rows[i]).second && !isOneValue)
      return LogicalResult(node.error() << "writes an element twice: row " << writes.rows[i]);
    consecutive &= writes.rows[i] == first + i;
  }
  if (consecutive)
    return concatTensors(node,
                         {sliceTensor(node, data, 0, 0, first), writes.updates,
                          sliceTensor(node, data, 0, first + count, size - first - count)},
                         0);
  auto both = concatTensors(node, {data, writes.updates}, 0);
  if (failed(both) || failed(checkRows(node, size)))
    return failure();
  std::vector<int64_t> from(size);
  std::iota(from.begin(), from.end(), 0);
  for (int64_t i = 0; i < count; ++i)
    from[writes.rows[i]] = size + i;
  return lookUp(node, *both, std::move(from));
}

/// Sums and products of rows that aren't written are those with 0 and 1, extremes those with
/// themselves.
static FailureOr<Tensor> reduceRows(Conversion &node, Tensor data, const Writes &writes,
                                    Write write) {
  const StringRef op = combinationOf(write);
  const int64_t size = data.shape()[0];
  if (failed(checkRows(node, size)))
    return failure();
  const bool extreme = op == "Max" || op == "Min";
  std::vector<std::vector<int64_t>> rounds;
  std::vector<int64_t> met(size);
  Shape neutral = data.shape();
  neutral[0] = extreme ? size : 1;
  for (auto [i, row] : llvm::enumerate(writes.rows)) {
    const size_t round = met[row]++;
    if (round == rounds.size()) {
      if (failed(node.chargeNodes(8)) ||
          failed(node.chargeFolded(Tensor(
              HostTensor::ofInts(node.emit.getI64Type(), {size}, std::vector<int64_t>(size))))))
        return failure();
      rounds.emplace_back(size, 0);
      if (extreme)
        std::iota(rounds.back().begin(), rounds.back().end(), 0);
    }
    rounds[round][row] = neutral[0] + int64_t(i);
  }
  for (std::vector<int64_t> &from : rounds) {
    Tensor unwritten =
        extreme ? data : Tensor(HostTensor::splat(data.element(), neutral, op == "Mul"));
    auto both = concatTensors(node, {unwritten, writes.updates}, 0);
    auto terms = failed(both) ? both : lookUp(node, *both, std::move(from));
    auto next = failed(terms) ? terms : binary(node, op, data, *terms);
    if (failed(next))
      return failure();
    data = *next;
  }
  return data;
}

/// `data`, seen as so many rows, with what is written.
static FailureOr<Tensor> writeRows(Conversion &node, const Tensor &data, int64_t numRows,
                                   const Writes &writes, Write write) {
  if (writes.rows.empty())
    return data;
  Shape rows = data.shape(); // whole rows keep their dimensions
  if (rows.empty() || numRows != rows[0])
    rows = {numRows, product(data.shape()) / numRows};
  Tensor seen = reshapeTensor(node, data, rows);
  rows[0] = writes.rows.size();
  Writes flat{writes.rows, reshapeTensor(node, writes.updates, rows)};
  auto result =
      write == Write::Replace ? replaceRows(node, seen, flat) : reduceRows(node, seen, flat, write);
  return failed(result) ? result : reshapeTensor(node, *result, data.shape());
}

/// At positions of run time. Where there are fewer of them than elements, across the axis, the
/// rest stays as it is.
static FailureOr<Tensor> scatterPart(Conversion &node, Tensor data, Value at, const Tensor &updates,
                                     int64_t axis, Write write) {
  const Shape wanted = updates.shape();
  std::vector<Tensor> rest;
  Shape cut;
  for (int64_t i = 0; i < data.rank(); ++i) {
    const int64_t size = data.shape()[i];
    if (i == axis || wanted[i] == size)
      continue;
    cut.push_back(i);
    rest.push_back(sliceTensor(node, data, i, wanted[i], size - wanted[i]));
    data = sliceTensor(node, data, i, 0, wanted[i]);
  }
  auto result = scatterAlong(node, data, at, updates, axis, write);
  for (size_t i = cut.size(); i-- > 0 && succeeded(result);)
    result = concatTensors(node, {*result, rest[i]}, cut[i]);
  return result;
}

/// Whether all slices across the axis are written at the same positions.
static bool isOfSlices(const HostTensor &at, const Shape &shape, int64_t axis) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != axis && (at.stored[i] != 1 || at.shape[i] != shape[i]))
      return false;
  return true;
}

/// The axis goes to the front, so that the other dimensions stay what they are.
static FailureOr<Tensor> scatterInFront(Conversion &node, const Tensor &data, Tensor at,
                                        const Tensor &updates, int64_t axis, Write write) {
  Shape toFront = {axis};
  for (int64_t i = 0; i < data.rank(); ++i) {
    if (i == axis)
      continue;
    toFront.push_back(i);
    at = sliceTensor(node, at, i, 0, 1);
  }
  at = reshapeTensor(node, at, {updates.shape()[axis]});
  auto result = scatterSlices(node, transposeTensor(node, data, toFront), at,
                              transposeTensor(node, updates, toFront), write);
  return failed(result) ? result
                        : transposeTensor(node, *result, Shape(invertPermutationVector(toFront)));
}

FailureOr<Tensor> scatterElements(Conversion &node, const Tensor &data, const Tensor &at,
                                  const Tensor &updates, int64_t axis, Write write) {
  const Shape shape = data.shape(), wanted = at.shape();
  if (wanted.size() != shape.size() || updates.shape() != wanted ||
      updates.element() != data.element() || !isa<IntegerType>(at.element()))
    return LogicalResult(node.error()
                         << "needs indices and updates of one shape and of rank " << shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != axis && wanted[i] > shape[i])
      return LogicalResult(node.error() << "has more indices than elements");
  if (product(wanted) == 0)
    return data;
  if (!at.host)
    return scatterPart(node, data, at.value, updates, axis, write);
  if (isOfSlices(*at.host, shape, axis))
    return scatterInFront(node, data, at, updates, axis, write);
  Host known = normalizeIndices(node, at.host, shape[axis]);
  if (!known || failed(node.chargeNodes(known->size() / 64)))
    return failure();
  const Shape strides = computeStrides(shape);
  Writes writes{{}, reshapeTensor(node, updates, {product(wanted)})};
  const Shape steps = known->strides();
  forEachIndex(wanted, [&](ArrayRef<int64_t> index) {
    const int64_t along = known->ints[dot(index, steps)];
    writes.rows.push_back(dot(index, strides) + (along - index[axis]) * strides[axis]);
  });
  return writeRows(node, data, product(shape), writes, write);
}

/// All positions are known: those of several dimensions become rows.
static FailureOr<Tensor> scatterSlicesAt(Conversion &node, const Tensor &data,
                                         ArrayRef<Tensor> components, const Tensor &updates,
                                         Write write) {
  const Shape shape = data.shape();
  Writes writes{std::vector<int64_t>(components[0].host->size()), updates};
  if (failed(node.chargeNodes(int64_t(writes.rows.size() * components.size() / 64))))
    return failure();
  for (auto [k, component] : llvm::enumerate(components)) {
    Host known = normalizeIndices(node, component.host, shape[k]);
    if (!known)
      return failure();
    for (auto [row, at] : llvm::zip(writes.rows, known->intList()))
      row = row * shape[k] + at;
  }
  return writeRows(node, data, product(ArrayRef(shape).take_front(components.size())), writes,
                   write);
}

/// result[b, at[b, j]] for each b: rows of their own, as batches have them.
static FailureOr<Tensor> scatterInRows(Conversion &node, const Tensor &data, const Tensor &last,
                                       int64_t axis, const Tensor &updates, Write write) {
  Emitter &emit = node.emit;
  const Shape shape = data.shape();
  Shape wanted = shape, dims = llvm::to_vector(llvm::seq<int64_t>(axis + 1));
  wanted[axis] = product(ArrayRef(last.shape()).drop_front(axis));
  Shape lead(ArrayRef(wanted).take_front(axis + 1));
  Value at = broadcastAlong(emit, reshape(emit, node.value(last), lead), wanted, dims);
  return scatterAlong(node, data, at, reshapeTensor(node, updates, wanted), axis, write);
}

FailureOr<Tensor> scatterSlices(Conversion &node, const Tensor &data, ArrayRef<Tensor> components,
                                const Tensor &updates, Write write) {
  const Shape shape = data.shape(), lead = components[0].shape();
  Shape expected = lead;
  expected.append(shape.begin() + components.size(), shape.end());
  if (updates.shape() != expected || updates.element() != data.element())
    return LogicalResult(node.error() << "needs updates of the shape " << listed(expected)
                                      << ", got " << listed(updates.shape()));
  if (product(lead) == 0)
    return data;
  if (llvm::all_of(components, [](const Tensor &each) { return each.host != nullptr; }))
    return scatterSlicesAt(node, data, components, updates, write);
  if (components.size() > 1 && indexesRows(data, components, lead))
    return scatterInRows(node, data, components.back(), components.size() - 1, updates, write);
  if (failed(node.chargeNodes(components.size() * 8)))
    return failure();
  SmallVector<Value> values;
  for (const Tensor &component : components)
    values.push_back(node.value(component));
  return scatterRows(node, data, values, updates, write);
}

} // namespace dtc::import
