// GatherND and ScatterND: positions by several indices at once.
#include "HostElementwise.h"
#include "Indices.h"
#include "Movement.h"

#include <numeric>
#include <set>

using namespace mlir;

namespace dtc::import {

/// The dimension along which a value is 0, 1, 2, ...; -1 if it is no such value.
static int64_t iotaDim(Value value) {
  if (auto iota = value.getDefiningOp<graph::IotaOp>())
    return iota.getDim();
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>()) {
    const int64_t dim = iotaDim(broadcast.getInput());
    return dim < 0 ? -1 : broadcast.getDims()[dim];
  }
  if (auto reshape = value.getDefiningOp<graph::ReshapeOp>()) {
    const int64_t dim = iotaDim(reshape.getInput());
    if (dim < 0)
      return -1;
    auto from = graph::shapeOf(reshape.getInput()), to = graph::shapeOf(reshape.getResult());
    const int64_t inner = product(from.drop_front(dim + 1));
    for (int64_t i = to.size(); i-- > 0;)
      if (to[i] == from[dim] && product(to.drop_front(i + 1)) == inner)
        return i;
  }
  return -1;
}

static int64_t iotaDim(const HostTensor &tensor) {
  int64_t dim = -1;
  for (size_t i = 0; i < tensor.stored.size(); ++i)
    if (tensor.stored[i] != 1) {
      if (dim >= 0)
        return -1;
      dim = i;
    }
  for (size_t i = 0; i < tensor.ints.size(); ++i)
    if (tensor.ints[i] != int64_t(i))
      return -1;
  return dim;
}

/// One position per indexed dimension: the indices of GatherND taken apart
/// along their last dimension. Empty when that cannot be done.
static SmallVector<Tensor> indexComponents(NodeConverter &node, const Tensor &indices) {
  SmallVector<Tensor> parts;
  Shape shape = indices.shape();
  const int64_t count = shape.back();
  const Shape lead(ArrayRef(shape).drop_back());
  if (indices.host) {
    for (int64_t k = 0; k < count; ++k)
      parts.push_back(reshapeTensor(
          node, sliceTensor(node, indices, shape.size() - 1, k, 1), lead));
    return parts;
  }
  if (count == 1) {
    parts.push_back(reshape(node.emit, indices.value, lead));
    return parts;
  }
  auto concat = indices.value.getDefiningOp<graph::ConcatOp>();
  if (!concat || concat.getDim() != uint64_t(shape.size() - 1))
    return parts;
  for (Value part : concat.getInputs()) {
    if (graph::shapeOf(part).back() != 1)
      return {};
    parts.push_back(reshape(node.emit, part, lead));
  }
  return parts;
}

/// The first dimension of size 1 that no pair in `taken` has.
static int64_t unitDim(const Shape &lead, ArrayRef<std::pair<int64_t, int64_t>> taken) {
  for (size_t dim = 0; dim < lead.size(); ++dim)
    if (lead[dim] == 1 && llvm::none_of(taken, [&](auto pair) {
          return pair.first == int64_t(dim);
        }))
      return dim;
  return -1;
}

/// data[b, q] for b and q iotas of output dimensions, as attention masks of
/// Hugging Face are built: dimensions of `data` go to where the iotas run.
static LogicalResult gatherByIotas(NodeConverter &node, const Tensor &data,
                                   ArrayRef<Tensor> parts, const Shape &lead) {
  Tensor rest = data;
  SmallVector<std::pair<int64_t, int64_t>> order; // output dimension, dimension of `rest`
  Shape singles;
  for (size_t k = 0; k < parts.size(); ++k) {
    const int64_t size = data.shape()[k];
    if (const int64_t unit = unitDim(lead, order); size == 1 && unit >= 0) {
      order.push_back({unit, k}); // a batch of one, indexed by a range of one
      continue;
    }
    if (parts[k].host && parts[k].host->isSplat()) {
      Host at = normalizeIndices(node, parts[k].host, size);
      if (!at)
        return failure();
      rest = sliceTensor(node, rest, k, at->ints[0], 1);
      singles.push_back(k);
      continue;
    }
    const int64_t dim = parts[k].host ? iotaDim(*parts[k].host) : iotaDim(parts[k].value);
    if (dim < 0 || lead[dim] != size)
      return node.error() << "indices must be known while compiling, or run along dimensions "
                             "of the result";
    order.push_back({dim, k});
  }
  llvm::sort(order);
  Shape perm, kept, dims, shape = lead;
  for (auto [dim, from] : order) {
    if (!dims.empty() && dims.back() == dim)
      return node.error() << "indexes two dimensions by the same one of the result";
    dims.push_back(dim);
    perm.push_back(from);
    kept.push_back(rest.shape()[from]);
  }
  perm.append(singles);
  for (int64_t i = parts.size(); i < rest.rank(); ++i) {
    perm.push_back(i);
    dims.push_back(lead.size() + i - parts.size());
    kept.push_back(rest.shape()[i]);
    shape.push_back(rest.shape()[i]);
  }
  Value value = node.value(transposeTensor(node, rest, perm));
  return node.define(broadcastAlong(node.emit, reshape(node.emit, value, kept), shape, dims));
}

/// One component is a Gather along the first dimension.
static LogicalResult gatherRows(NodeConverter &node, const Tensor &data, const Tensor &rows) {
  if (rows.host)
    return node.define(gatherAtConstants(node.emit, node.value(0), *rows.host, 0));
  auto at = runTimeIndices(node, rows.value, data.element(), data.shape()[0]);
  if (failed(at))
    return failure();
  Value found = gather(node.emit, node.value(0), at->at, 0);
  return node.define(
      refuseOutside(node.emit, found, *at, llvm::to_vector(llvm::seq<int64_t>(rows.rank()))));
}

/// data[b, at[b]]: whether all components but the last run along the leading dimensions.
static bool indexesRows(const Tensor &data, ArrayRef<Tensor> parts, const Shape &lead) {
  if (parts.size() != lead.size() + 1 || parts.back().host)
    return false;
  for (size_t k = 0; k < lead.size(); ++k) {
    const int64_t dim = parts[k].host ? iotaDim(*parts[k].host) : iotaDim(parts[k].value);
    if (lead[k] != data.shape()[k] || (lead[k] != 1 && dim != int64_t(k)))
      return false;
  }
  return true;
}

/// One slice of each row: the position in the row is moved to the end and picked there.
static LogicalResult gatherOfRows(NodeConverter &node, const Tensor &data, const Tensor &at) {
  Emitter &emit = node.emit;
  const int64_t axis = at.rank();
  Shape toEnd, shape = data.shape();
  for (int64_t i = 0; i < data.rank(); ++i)
    if (i != axis)
      toEnd.push_back(i);
  toEnd.push_back(axis);
  auto indices = runTimeIndices(node, at.value, data.element(), shape[axis]);
  if (failed(indices))
    return failure();
  shape.erase(shape.begin() + axis);
  auto leading = llvm::to_vector(llvm::seq<int64_t>(axis));
  Value picked = graph::PickOp::create(emit, RankedTensorType::get(shape, data.element()),
                                       transpose(emit, node.value(0), toEnd),
                                       broadcastAlong(emit, indices->at, shape, leading));
  return node.define(refuseOutside(emit, picked, *indices, leading));
}

/// The constant looked up at constant components; null when it is too large.
static Host gatherNDHost(const HostTensor &data, ArrayRef<Tensor> parts, const Shape &lead) {
  Shape shape = lead, stored(lead.size(), 1);
  SmallVector<Shape> partSteps;
  for (const Tensor &part : parts) {
    partSteps.push_back(part.host->strides());
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] = std::max(stored[i], part.host->stored[i]);
  }
  shape.append(data.shape.begin() + parts.size(), data.shape.end());
  stored.append(data.stored.begin() + parts.size(), data.stored.end());
  const Shape steps = data.strides();
  return rearrange(data, shape, stored, [&](ArrayRef<int64_t> at) {
    int64_t from = 0;
    for (size_t k = 0; k < parts.size(); ++k)
      from += parts[k].host->ints[dot(at.take_front(lead.size()), partSteps[k])] * steps[k];
    return from + dot(at.drop_front(lead.size()), ArrayRef(steps).drop_front(parts.size()));
  });
}

/// Whether `gatherByIotas` knows each component: one position everywhere, or all of a dimension in
/// order along a dimension of the result that no other component runs along.
static bool runAlongResult(const Tensor &data, ArrayRef<Tensor> parts, const Shape &lead) {
  SmallVector<int64_t> taken;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].host->isSplat())
      continue;
    const int64_t dim = iotaDim(*parts[k].host);
    if (dim < 0 || lead[dim] != data.shape()[k] || llvm::is_contained(taken, dim))
      return false;
    taken.push_back(dim);
  }
  return true;
}

/// At constant positions the indexed dimensions are looked up as one.
static LogicalResult gatherAtPositions(NodeConverter &node, const Tensor &data,
                                       ArrayRef<Tensor> parts, const Shape &lead) {
  const Type element = parts[0].host->element;
  Shape merged = data.shape();
  Host at = HostTensor::splat(element, lead, 0);
  for (size_t k = 0; k < parts.size() && at; ++k) {
    at = evaluateBinary("Mul", at, HostTensor::splat(element, {}, data.shape()[k]));
    at = at ? evaluateBinary("Add", at, parts[k].host) : Host();
  }
  if (!at)
    return node.error() << "has too many constant indices";
  merged.erase(merged.begin(), merged.begin() + parts.size());
  merged.insert(merged.begin(), product(ArrayRef(data.shape()).take_front(parts.size())));
  Value table = reshape(node.emit, node.value(0), merged);
  return node.define(gatherAtConstants(node.emit, table, *at, 0));
}

static LogicalResult convertGatherND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  if (node.attrInt("batch_dims", 0) != 0)
    return node.error() << "is supported with batch_dims 0 only";
  if (indices.rank() < 1 || indices.shape().back() > data.rank() ||
      !isa<IntegerType>(indices.element()))
    return node.error() << "has bad indices";
  const Shape shape = indices.shape(), lead(ArrayRef(shape).drop_back());
  SmallVector<Tensor> parts = indexComponents(node, indices);
  if (parts.empty())
    return node.error() << "needs indices known while compiling";
  bool constant = true;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].host)
      parts[k].host = normalizeIndices(node, parts[k].host, data.shape()[k]);
    else
      constant = false;
    if (!parts[k].host && !parts[k].value)
      return failure();
  }
  if (constant && data.host)
    if (Host result = gatherNDHost(*data.host, parts, lead))
      return node.define(Tensor(result));
  if (constant && !runAlongResult(data, parts, lead))
    return gatherAtPositions(node, data, parts, lead);
  if (indexesRows(data, parts, lead))
    return gatherOfRows(node, data, parts.back());
  const bool isIota = parts[0].host ? iotaDim(*parts[0].host) >= 0 : iotaDim(parts[0].value) >= 0;
  if (parts.size() == 1 && !isIota)
    return gatherRows(node, data, parts[0]);
  return gatherByIotas(node, data, parts, lead);
}

/// Rows of `data` replaced by those of `updates`: consecutive ones are joined with what stays
/// around them, others are looked up in both.
static LogicalResult replaceRows(NodeConverter &node, const Tensor &data, ArrayRef<int64_t> rows,
                                 const Tensor &updates) {
  const int64_t size = data.shape()[0], count = rows.size();
  bool consecutive = true;
  std::set<int64_t> written;
  for (int64_t i = 0; i < count; ++i) {
    if (!written.insert(rows[i]).second)
      return node.error() << "writes an element twice: row " << rows[i];
    consecutive &= rows[i] == rows[0] + i;
  }
  if (consecutive) {
    const int64_t end = rows[0] + count;
    auto joined = concatTensors(node,
                                {sliceTensor(node, data, 0, 0, rows[0]), updates,
                                 sliceTensor(node, data, 0, end, size - end)},
                                0);
    return failed(joined) ? failure() : node.define(*joined);
  }
  auto both = concatTensors(node, {data, updates}, 0);
  if (failed(both))
    return failure();
  if (!fitsConstant(node.emit.getI64Type(), {size}))
    return node.error() << "writes single rows into too many: " << size;
  std::vector<int64_t> from(size);
  std::iota(from.begin(), from.end(), 0);
  for (int64_t i = 0; i < count; ++i)
    from[rows[i]] = size + i;
  Host at = HostTensor::ofInts(node.emit.getI64Type(), {size}, std::move(from));
  return node.define(gatherAtConstants(node.emit, node.value(*both), *at, 0));
}

static LogicalResult convertScatterND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  if (node.attrString("reduction", "none") != "none")
    return node.error() << "is supported without reduction only";
  if (!indices.host || indices.rank() < 1 || data.rank() < 1 || indices.shape().back() != 1 ||
      !isa<IntegerType>(indices.element()))
    return node.error() << "is supported for rows known while compiling only";
  Host at = normalizeIndices(node, indices.host, data.shape()[0]);
  if (!at)
    return failure();
  Shape shape(ArrayRef(indices.shape()).drop_back()), rows = data.shape();
  rows[0] = product(shape);
  shape.append(rows.begin() + 1, rows.end());
  if (updates.shape() != shape)
    return node.error() << "needs updates of the shape " << listed(shape) << ", got "
                        << listed(updates.shape());
  if (rows[0] == 0)
    return node.define(data);
  return replaceRows(node, data, at->intList(), reshapeTensor(node, updates, rows));
}

void addGatherNDConverter(ConverterTable &table) {
  table["GatherND"] = convertGatherND;
  table["ScatterND"] = convertScatterND;
}

} // namespace dtc::import
