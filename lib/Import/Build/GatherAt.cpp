#include "dtc/Import/Build/GatherAt.h"

#include "dtc/Import/Build/HostElementwise.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"

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

/// The first dimension of size 1 that no pair in `taken` has.
static int64_t unitDim(const Shape &lead, ArrayRef<std::pair<int64_t, int64_t>> taken) {
  for (size_t dim = 0; dim < lead.size(); ++dim)
    if (lead[dim] == 1 &&
        llvm::none_of(taken, [&](auto pair) { return pair.first == int64_t(dim); }))
      return dim;
  return -1;
}

/// data[b, q] for b and q iotas of output dimensions, as Hugging Face builds attention masks.
/// Dimensions of `data` go to where the iotas run.
static FailureOr<Tensor> gatherByIotas(Conversion &node, const Tensor &data, ArrayRef<Tensor> parts,
                                       const Shape &lead) {
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
      return LogicalResult(node.error()
                           << "indices must be known while compiling, or run along dimensions "
                              "of the result");
    order.push_back({dim, k});
  }
  llvm::sort(order);
  Shape perm, kept, dims, shape = lead;
  for (auto [dim, from] : order) {
    if (!dims.empty() && dims.back() == dim)
      return LogicalResult(node.error() << "indexes two dimensions by the same one of the result");
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
  return Tensor(broadcastAlong(node.emit, reshape(node.emit, value, kept), shape, dims));
}

/// One component is a Gather along the first dimension.
static FailureOr<Tensor> gatherRows(Conversion &node, const Tensor &data, const Tensor &rows) {
  if (rows.host)
    return Tensor(gatherAtConstants(node.emit, node.value(data), *rows.host, 0));
  auto at = runTimeIndices(node, rows.value, data.element(), data.shape()[0]);
  if (failed(at))
    return failure();
  Value found = gather(node.emit, node.value(data), at->at, 0);
  return Tensor(
      refuseOutside(node.emit, found, *at, llvm::to_vector(llvm::seq<int64_t>(rows.rank()))));
}

bool indexesRows(const Tensor &data, ArrayRef<Tensor> parts, const Shape &lead) {
  if (parts.size() > lead.size() + 1 || parts.back().host)
    return false;
  for (size_t k = 0; k + 1 < parts.size(); ++k) {
    const int64_t dim = parts[k].host ? iotaDim(*parts[k].host) : iotaDim(parts[k].value);
    if (lead[k] != data.shape()[k] || (lead[k] != 1 && dim != int64_t(k)))
      return false;
  }
  return true;
}

/// One slice of each row: the position in the row is moved to the end and picked there.
static FailureOr<Tensor> gatherOfRows(Conversion &node, const Tensor &data, const Tensor &at) {
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
                                       transpose(emit, node.value(data), toEnd),
                                       broadcastAlong(emit, indices->at, shape, leading));
  return Tensor(refuseOutside(emit, picked, *indices, leading));
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

/// Whether `gatherByIotas` knows each component. One kind is one position everywhere. The other is
/// all of a dimension in order, along a dimension of the result that no other component runs along.
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
static FailureOr<Tensor> gatherAtPositions(Conversion &node, const Tensor &data,
                                           ArrayRef<Tensor> parts, const Shape &lead) {
  const Type element = parts[0].host->element;
  Shape merged = data.shape();
  Host at = HostTensor::splat(element, lead, 0);
  for (size_t k = 0; k < parts.size() && at; ++k) {
    at = evaluateBinary("Mul", at, HostTensor::splat(element, {}, data.shape()[k]));
    at = at ? evaluateBinary("Add", at, parts[k].host) : Host();
  }
  if (!at)
    return LogicalResult(node.error() << "has too many constant indices");
  merged.erase(merged.begin(), merged.begin() + parts.size());
  merged.insert(merged.begin(), product(ArrayRef(data.shape()).take_front(parts.size())));
  Value table = reshape(node.emit, node.value(data), merged);
  return Tensor(gatherAtConstants(node.emit, table, *at, 0));
}

FailureOr<Tensor> gatherAt(Conversion &node, const Tensor &data, SmallVector<Tensor> parts,
                           const Shape &lead) {
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
      return Tensor(result);
  if (constant && !runAlongResult(data, parts, lead))
    return gatherAtPositions(node, data, parts, lead);
  if (parts.size() == lead.size() + 1 && indexesRows(data, parts, lead))
    return gatherOfRows(node, data, parts.back());
  const bool isIota = parts[0].host ? iotaDim(*parts[0].host) >= 0 : iotaDim(parts[0].value) >= 0;
  if (parts.size() == 1 && !isIota)
    return gatherRows(node, data, parts[0]);
  return gatherByIotas(node, data, parts, lead);
}

} // namespace dtc::import
