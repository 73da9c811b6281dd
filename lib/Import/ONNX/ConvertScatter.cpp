// Elements and rows written at positions.
//
// At positions known while compiling, what is written is looked up: the result is a gather, at
// constant positions, of what was there and what is written. So gradients flow to both. Where a
// reduction meets a position several times, there is a round for each time. For positions of run
// time see ScatterAt.h.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/ScatterAt.h"

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

static Shape rowMajor(ArrayRef<int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// To be called before a position is stored for each row.
static LogicalResult checkRows(NodeConverter &node, int64_t size) {
  if (fitsConstant(node.emit.getI64Type(), {size}))
    return success();
  return node.error() << "writes single rows into too many: " << size;
}

/// The first dimension of `tensor` at constant positions.
static FailureOr<Tensor> lookUp(NodeConverter &node, const Tensor &tensor,
                                std::vector<int64_t> from) {
  const int64_t size = from.size();
  Host at = HostTensor::ofInts(node.emit.getI64Type(), {size}, std::move(from));
  return Tensor(gatherAtConstants(node.emit, node.value(tensor), *at, 0));
}

static FailureOr<Tensor> replaceRows(NodeConverter &node, const Tensor &data,
                                     const Writes &writes) {
  const int64_t size = data.shape()[0], count = writes.rows.size(), first = writes.rows[0];
  bool consecutive = true;
  std::set<int64_t> written;
  for (int64_t i = 0; i < count; ++i) {
    if (!written.insert(writes.rows[i]).second)
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
static FailureOr<Tensor> reduceRows(NodeConverter &node, Tensor data, const Writes &writes,
                                    StringRef op) {
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

namespace {
struct Reduction {
  Write write;
  StringRef op;
};
} // namespace

static FailureOr<Reduction> readReduction(NodeConverter &node) {
  static const std::map<std::string, Reduction> kReductions = {{"none", {Write::Replace, ""}},
                                                               {"add", {Write::Add, "Add"}},
                                                               {"mul", {Write::Multiply, "Mul"}},
                                                               {"max", {Write::Max, "Max"}},
                                                               {"min", {Write::Min, "Min"}}};
  const std::string reduction = node.attrString("reduction", "none");
  auto known = kReductions.find(reduction);
  if (known == kReductions.end())
    return LogicalResult(node.error() << "has an unknown reduction: " << reduction);
  return known->second;
}

/// Defines the result: the first input, seen as so many rows, with what is written.
static LogicalResult write(NodeConverter &node, int64_t numRows, const Writes &writes) {
  const Shape shape = node.input(0).shape();
  auto reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (writes.rows.empty())
    return node.define(node.input(0));
  Shape rows = shape; // whole rows keep their dimensions
  if (numRows != shape[0])
    rows = {numRows, product(shape) / numRows};
  Tensor data = reshapeTensor(node, node.input(0), rows);
  rows[0] = writes.rows.size();
  Writes flat{writes.rows, reshapeTensor(node, writes.updates, rows)};
  auto result = reduction->op.empty() ? replaceRows(node, data, flat)
                                      : reduceRows(node, data, flat, reduction->op);
  return failed(result) ? failure() : node.define(reshapeTensor(node, *result, shape));
}

/// ScatterND at positions of run time: their components are the last dimension.
static LogicalResult scatterRowsAtRunTime(NodeConverter &node, int64_t depth) {
  auto reduction = readReduction(node);
  if (failed(reduction) || failed(node.chargeNodes(depth * 8)))
    return failure();
  Value indices = node.value(1);
  Shape lead(tensorType(indices).getShape().drop_back());
  SmallVector<Value> components;
  for (int64_t k = 0; k < depth; ++k)
    components.push_back(reshape(node.emit, sliceDim(node.emit, indices, lead.size(), k, 1), lead));
  return node.define(scatterRows(node, node.input(0), components, node.input(2), reduction->write));
}

/// ScatterElements at positions of run time. Where there are fewer indices than elements, across
/// the axis, the rest stays as it is.
static LogicalResult scatterElementsAtRunTime(NodeConverter &node, int64_t axis) {
  const Shape wanted = node.input(1).shape();
  auto reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  Tensor part = node.input(0);
  std::vector<Tensor> rest;
  Shape cut;
  for (int64_t i = 0; i < part.rank(); ++i) {
    const int64_t size = part.shape()[i];
    if (i == axis || wanted[i] == size)
      continue;
    cut.push_back(i);
    rest.push_back(sliceTensor(node, part, i, wanted[i], size - wanted[i]));
    part = sliceTensor(node, part, i, 0, wanted[i]);
  }
  auto result = scatterAlong(node, part, node.value(1), node.input(2), axis, reduction->write);
  for (size_t i = cut.size(); i-- > 0 && succeeded(result);)
    result = concatTensors(node, {*result, rest[i]}, cut[i]);
  return node.define(result);
}

static LogicalResult convertScatterND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  const Shape shape = data.shape();
  const int64_t depth = indices.rank() < 1 ? 0 : indices.shape().back();
  if (depth < 1 || depth > data.rank() || !isa<IntegerType>(indices.element()))
    return node.error() << "has bad indices";
  Shape expected(ArrayRef(indices.shape()).drop_back());
  expected.append(shape.begin() + depth, shape.end());
  if (updates.shape() != expected || updates.element() != data.element())
    return node.error() << "needs updates of the shape " << listed(expected) << ", got "
                        << listed(updates.shape());
  if (!indices.host)
    return scatterRowsAtRunTime(node, depth);
  if (failed(node.chargeNodes(indices.host->size() / 64)))
    return failure();
  Writes writes{{}, updates};
  const auto list = indices.host->intList();
  for (size_t i = 0; i < list.size(); i += depth) {
    int64_t row = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t at = list[i + k] + (list[i + k] < 0 ? shape[k] : 0);
      if (at < 0 || at >= shape[k])
        return node.error() << "index out of range for size " << shape[k] << ": " << list[i + k];
      row = row * shape[k] + at;
    }
    writes.rows.push_back(row);
  }
  return write(node, product(ArrayRef(shape).take_front(depth)), writes);
}

static LogicalResult convertScatterElements(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  const Shape shape = data.shape(), wanted = indices.shape();
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  if (wanted.size() != shape.size() || updates.shape() != wanted ||
      updates.element() != data.element() || !isa<IntegerType>(indices.element()))
    return node.error() << "needs indices and updates of one shape and of rank " << shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != *axis && wanted[i] > shape[i])
      return node.error() << "has more indices than elements";
  if (!indices.host)
    return scatterElementsAtRunTime(node, *axis);
  Host at = normalizeIndices(node, indices.host, shape[*axis]);
  if (!at || failed(node.chargeNodes(at->size() / 64)))
    return failure();
  const Shape strides = rowMajor(shape);
  Writes writes{{}, reshapeTensor(node, updates, {product(wanted)})};
  const Shape indexSteps = at->strides();
  forEachIndex(wanted, [&](ArrayRef<int64_t> index) {
    const int64_t along = at->ints[dot(index, indexSteps)];
    writes.rows.push_back(dot(index, strides) + (along - index[*axis]) * strides[*axis]);
  });
  return write(node, product(shape), writes);
}

/// The same with write_indices of run time.
static LogicalResult scatterFromRunTime(NodeConverter &node, int64_t axis, bool circular) {
  Emitter &emit = node.emit;
  const Tensor &data = node.input(0), &updates = node.input(1);
  if (node.input(2).shape() != Shape{data.shape()[0]} || !isa<IntegerType>(node.input(2).element()))
    return node.error() << "needs a write index for each sample";
  Value start = castTo(emit, node.value(2), emit.getI64Type());
  start = broadcastAlong(emit, start, updates.shape(), {0});
  Value size = splatLike(emit, start, data.shape()[axis]);
  Value at =
      arith::AddIOp::create(emit, start, graph::IotaOp::create(emit, tensorType(start), axis));
  if (circular)
    at = arith::RemSIOp::create(emit, at, size);
  // Negative ones are outside: they don't count from the end.
  Value isNegative =
      arith::CmpIOp::create(emit, arith::CmpIPredicate::slt, start, splatLike(emit, start, 0));
  at = arith::SelectOp::create(emit, isNegative, size, at);
  return node.define(scatterAlong(node, data, at, updates, axis, Write::Replace));
}

/// A cache's positions from write_indices on, for each sample.
static LogicalResult convertTensorScatter(NodeConverter &node) {
  const Tensor &data = node.input(0), &updates = node.input(1);
  const Shape shape = data.shape(), wanted = updates.shape();
  auto axis = node.axis(node.attrInt("axis", -2), data.rank());
  if (failed(axis))
    return failure();
  const bool circular = node.attrString("mode", "linear") == "circular";
  Shape starts(shape.empty() ? 0 : shape[0], 0);
  const bool isComputed = node.has(2) && !node.input(2).host;
  if (node.has(2) && !isComputed) {
    auto given = node.ints(2, "write_indices");
    if (failed(given))
      return failure();
    starts = *given;
  }
  Shape expected = shape;
  if (wanted.size() == shape.size())
    expected[*axis] = std::min(wanted[*axis], shape[*axis]);
  if (*axis == 0 || wanted != expected || updates.element() != data.element() ||
      int64_t(starts.size()) != shape[0])
    return node.error() << "needs an update of each sample, and where it goes";
  if (isComputed)
    return scatterFromRunTime(node, *axis, circular);
  if (failed(node.chargeNodes(product(wanted) / 64)))
    return failure();
  const Shape strides = rowMajor(shape);
  Writes writes{{}, reshapeTensor(node, updates, {product(wanted)})};
  bool inside = true;
  forEachIndex(wanted, [&](ArrayRef<int64_t> index) {
    int64_t at = starts[index[0]] + index[*axis];
    at = circular && at >= 0 ? at % shape[*axis] : at;
    inside &= at >= 0 && at < shape[*axis];
    writes.rows.push_back(dot(index, strides) + (at - index[*axis]) * strides[*axis]);
  });
  if (!inside)
    return node.error() << "writes beyond the " << shape[*axis] << " positions there are";
  return write(node, product(shape), writes);
}

void addScatterConverters(ConverterTable &table) {
  table["ScatterND"] = convertScatterND;
  table["ScatterElements"] = convertScatterElements;
  table["Scatter"] = convertScatterElements; // its name before opset 11
  table["TensorScatter"] = convertTensorScatter;
}

} // namespace dtc::import
