// Operators that address elements by value: gathers, one-hot, running sums.
#include "Movement.h"

#include <limits>

using namespace mlir;

namespace dtc::import {

/// Constant indices with negative ones counted from the end; null with a
/// diagnostic where one is out of range.
static Host normalizeIndices(NodeConverter &node, const Host &indices, int64_t size) {
  auto result = std::make_shared<HostTensor>(*indices);
  for (int64_t &index : result->ints) {
    if (index < -size || index >= size) {
      node.error() << "index out of range for size " << size << ": " << index;
      return {};
    }
    if (index < 0)
      index += size;
  }
  return result;
}

/// Elements of `data` along `axis` at constant `indices`.
static Host gatherHost(const HostTensor &data, const HostTensor &indices, int64_t axis) {
  auto replaced = [&](const Shape &outer, const Shape &inner) {
    Shape shape(outer.begin(), outer.begin() + axis);
    shape.append(inner);
    shape.append(outer.begin() + axis + 1, outer.end());
    return shape;
  };
  const Shape steps = data.strides(), indexSteps = indices.strides();
  const int64_t rank = indices.shape.size();
  return rearrange(data, replaced(data.shape, indices.shape),
                   replaced(data.stored, indices.stored), [&](ArrayRef<int64_t> at) {
                     int64_t from = dot(at.take_front(axis), ArrayRef(steps).take_front(axis));
                     from += indices.ints[dot(at.slice(axis, rank), indexSteps)] * steps[axis];
                     return from + dot(at.drop_front(axis + rank),
                                       ArrayRef(steps).drop_front(axis + 1));
                   });
}

/// A gather at constant indices: only their distinct part is looked up, as a
/// slice where it is evenly spaced, and then repeated.
static Value gatherAtConstants(Emitter &emit, Value table, const HostTensor &indices,
                               int64_t axis) {
  Shape core, dims;
  for (size_t i = 0; i < indices.shape.size(); ++i)
    if (indices.stored[i] != 1) {
      core.push_back(indices.stored[i]);
      dims.push_back(axis + i);
    }
  const Shape full(tensorType(table).getShape());
  const auto &list = indices.ints;
  const int64_t step = list.size() > 1 ? list[1] - list[0] : 1;
  bool even = step > 0;
  for (size_t i = 0; i < list.size(); ++i)
    even &= list[i] == list[0] + int64_t(i) * step;
  auto around = [&](const Shape &inner) {
    Shape shape(full.begin(), full.begin() + axis);
    shape.append(inner);
    shape.append(full.begin() + axis + 1, full.end());
    return shape;
  };
  Value rows;
  if (even) {
    rows = sliceDim(emit, table, axis, list[0], list.size(), step);
    rows = reshape(emit, rows, around(core));
  } else {
    HostTensor distinct = indices;
    distinct.shape = distinct.stored = core;
    Value at = toValue(emit, emit.getLoc(), distinct);
    rows = gather(emit, table, at, axis);
  }
  Shape along;
  for (int64_t i = 0; i < axis; ++i)
    along.push_back(i);
  along.append(dims);
  for (size_t i = axis + 1; i < full.size(); ++i)
    along.push_back(i - 1 + indices.shape.size());
  return broadcastAlong(emit, rows, around(indices.shape), along);
}

/// Whether a value holds elements of an input of the model as they are. dtc-run checks those
/// against the sizes that they index (annotateIndexLimits).
static bool isCheckedInput(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto role = graph::getArgRole(func, argument.getArgNumber());
    return role && role.getKind() == graph::RoleKind::Input;
  }
  Operation *op = value.getDefiningOp();
  return isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::BroadcastOp,
             arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op) &&
         isCheckedInput(op->getOperand(0));
}

namespace {
/// Indices into a dimension of `size`, and where they are inside of it; null where nothing needs
/// to be checked in the graph.
struct RunTimeIndices {
  Value at, inside;
};
} // namespace

/// Computed indices count from the end where they are negative, as ONNX has it. Those of inputs
/// never do: exports of embeddings would look up other rows than PyTorch, which refuses them.
static RunTimeIndices runTimeIndices(Emitter &emit, Value indices, int64_t size) {
  using Predicate = arith::CmpIPredicate;
  if (isCheckedInput(indices))
    return {indices, {}};
  Value at = castTo(emit, indices, emit.getI64Type());
  Value negative = arith::CmpIOp::create(emit, Predicate::slt, at, splatLike(emit, at, 0));
  Value wrapped = arith::AddIOp::create(emit, at, splatLike(emit, at, size));
  at = arith::SelectOp::create(emit, negative, wrapped, at);
  return {at, arith::CmpIOp::create(emit, Predicate::ult, at, splatLike(emit, at, size))};
}

/// What was looked up outside is no number, so that the step is reported as not finite; integers
/// stay 0. `dims` are the indices' dimensions in `found`.
static Value refuseOutside(Emitter &emit, Value found, const RunTimeIndices &indices,
                           ArrayRef<int64_t> dims) {
  if (!indices.inside || !isa<FloatType>(elementOf(found)))
    return found;
  Value inside = broadcastAlong(emit, indices.inside, tensorType(found).getShape(), dims);
  Value nan = splatLike(emit, found, std::numeric_limits<double>::quiet_NaN());
  return arith::SelectOp::create(emit, inside, found, nan);
}

static LogicalResult convertGather(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  if (!isa<IntegerType>(indices.element()))
    return node.error() << "needs integer indices";
  Host constant = indices.host;
  if (constant) {
    constant = normalizeIndices(node, constant, data.shape()[*axis]);
    if (!constant)
      return failure();
    if (data.host)
      if (Host result = gatherHost(*data.host, *constant, *axis))
        return node.define(Tensor(result));
    if (constant->size() > 0)
      return node.define(gatherAtConstants(node.emit, node.value(0), *constant, *axis));
  }
  RunTimeIndices at = runTimeIndices(node.emit, node.value(1), data.shape()[*axis]);
  Value found = gather(node.emit, node.value(0), at.at, *axis);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(*axis, *axis + indices.rank()));
  return node.define(refuseOutside(node.emit, found, at, dims));
}

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
  bool constant = data.host != nullptr;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].host)
      parts[k].host = normalizeIndices(node, parts[k].host, data.shape()[k]);
    else
      constant = false;
    if (!parts[k].host && !parts[k].value)
      return failure();
  }
  if (constant)
    if (Host result = gatherNDHost(*data.host, parts, lead))
      return node.define(Tensor(result));
  return gatherByIotas(node, data, parts, lead);
}

/// Constants picked out of a constant along one dimension; null when it is too large.
static Host gatherElementsHost(const HostTensor &data, const HostTensor &indices, int64_t axis) {
  Shape stored = indices.stored;
  for (size_t i = 0; i < stored.size(); ++i)
    if (int64_t(i) != axis && data.stored[i] != 1)
      stored[i] = indices.shape[i];
  const Shape steps = data.strides(), indexSteps = indices.strides();
  return rearrange(data, indices.shape, stored, [&](ArrayRef<int64_t> at) {
    int64_t from = indices.ints[dot(at, indexSteps)] * steps[axis];
    for (size_t i = 0; i < at.size(); ++i)
      if (int64_t(i) != axis)
        from += at[i] * steps[i];
    return from;
  });
}

/// Rows of values of the graph are moved to the last dimension and their elements picked there.
static LogicalResult convertGatherElements(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  const Shape shape = data.shape(), wanted = indices.shape();
  if (shape.size() != wanted.size() || !isa<IntegerType>(indices.element()))
    return node.error() << "needs integer indices of rank " << shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != *axis && wanted[i] > shape[i])
      return node.error() << "has more indices than elements";
  if (data.host && indices.host) {
    Host constant = normalizeIndices(node, indices.host, shape[*axis]);
    if (!constant)
      return failure();
    if (Host result = gatherElementsHost(*data.host, *constant, *axis))
      return node.define(Tensor(result));
  }
  Shape toLast; // its own inverse: exchanges two dimensions
  Value rows = node.value(0);
  for (int64_t i = 0; i < data.rank(); ++i) {
    toLast.push_back(i);
    if (i != *axis)
      rows = sliceDim(node.emit, rows, i, 0, wanted[i]);
  }
  std::swap(toLast[*axis], toLast.back());
  RunTimeIndices at = runTimeIndices(node.emit, node.value(1), shape[*axis]);
  Value picked = pickEach(node.emit, transpose(node.emit, rows, toLast),
                          transpose(node.emit, at.at, toLast));
  picked = transpose(node.emit, picked, toLast);
  return node.define(refuseOutside(node.emit, picked, at,
                                   llvm::to_vector(llvm::seq<int64_t>(wanted.size()))));
}

static LogicalResult convertCumSum(NodeConverter &node) {
  const Tensor &tensor = node.input(0);
  auto given = node.scalarInt(1, "axis");
  if (failed(given))
    return failure();
  auto axis = node.axis(*given, tensor.rank());
  if (failed(axis))
    return failure();
  const bool exclusive = node.attrInt("exclusive", 0), reverse = node.attrInt("reverse", 0);
  if (!tensor.host) {
    Value x = tensor.value;
    return node.define(
        graph::CumSumOp::create(node.emit, x.getType(), x, *axis, exclusive, reverse).getResult());
  }
  const HostTensor &host = *tensor.host;
  Shape stored = host.stored;
  const int64_t size = stored[*axis] = host.shape[*axis];
  if (!fitsConstant(host.element, product(stored)))
    return node.error() << "of a constant of more than 1 MiB is not supported";
  auto result = std::make_shared<HostTensor>(host.element, host.shape, stored);
  const Shape steps = host.strides();
  Shape to = HostTensor(host.element, stored, stored).strides(), rows = stored;
  rows[*axis] = 1;
  forEachIndex(rows, [&](ArrayRef<int64_t> index) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t n = 0; n < size; ++n) {
      const int64_t k = reverse ? size - 1 - n : n;
      const int64_t from = dot(index, steps) + k * steps[*axis];
      const int64_t at = dot(index, to) + k * to[*axis];
      const double before = sum;
      const int64_t countBefore = count;
      if (host.isFloat())
        result->floats[at] = (sum = roundTo(host.element, sum + host.floats[from]),
                              exclusive ? before : sum);
      else
        result->ints[at] = (count = wrapTo(host.element, count + host.ints[from]),
                            exclusive ? countBefore : count);
    }
  });
  result->compress();
  return node.define(Tensor(result));
}

static LogicalResult convertOneHot(NodeConverter &node) {
  Emitter &emit = node.emit;
  auto depth = node.scalarInt(1, "depth");
  Host values = node.host(2);
  const int64_t rank = node.input(0).rank();
  auto axis = node.axis(node.attrInt("axis", -1), rank + 1);
  if (failed(depth) || failed(axis))
    return failure();
  if (!values || values->size() != 2 || *depth < 1)
    return node.error() << "needs depth and values known while compiling";
  const bool same = values->isSplat();
  Shape shape = node.input(0).shape(), dims;
  shape.insert(shape.begin() + *axis, *depth);
  for (int64_t i = 0; i <= rank; ++i)
    if (i != *axis)
      dims.push_back(i);
  Value at = castTo(emit, node.value(0), emit.getI64Type());
  Value negative = arith::CmpIOp::create(emit, arith::CmpIPredicate::slt, at,
                                         splatLike(emit, at, 0));
  Value shifted = arith::AddIOp::create(emit, at, splatLike(emit, at, *depth));
  at = arith::SelectOp::create(emit, negative, shifted, at);
  auto indexType = RankedTensorType::get(shape, emit.getI64Type());
  Value hot = arith::CmpIOp::create(emit, arith::CmpIPredicate::eq,
                                    broadcastAlong(emit, at, shape, dims),
                                    graph::IotaOp::create(emit, indexType, *axis));
  auto type = RankedTensorType::get(shape, values->element);
  return node.define(arith::SelectOp::create(emit, hot,
                                             splat(emit, type, values->number(same ? 0 : 1)),
                                             splat(emit, type, values->number(0)))
                         .getResult());
}

void addIndexConverters(ConverterTable &table) {
  table["Gather"] = convertGather;
  table["GatherND"] = convertGatherND;
  table["GatherElements"] = convertGatherElements;
  table["CumSum"] = convertCumSum;
  table["OneHot"] = convertOneHot;
}

} // namespace dtc::import
