#include "dtc/Import/Build/Movement.h"

#include "dtc-io/CheckedSize.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace dtc::import {

/// The reshaped constant, or null when it is too large to hold.
static Host reshapeHost(const HostTensor &tensor, ArrayRef<int64_t> shape) {
  if (tensor.isSplat()) {
    auto result = std::make_shared<HostTensor>(tensor);
    result->shape.assign(shape.begin(), shape.end());
    result->stored.assign(shape.size(), 1);
    return result;
  }
  auto isUnit = [](int64_t size) { return size == 1; };
  Shape before(tensor.shape), after(shape);
  llvm::erase_if(before, isUnit);
  llvm::erase_if(after, isUnit);
  if (before == after) { // only dimensions of size 1 come or go
    auto result = std::make_shared<HostTensor>(tensor);
    result->shape.assign(shape.begin(), shape.end());
    result->stored.clear();
    size_t from = 0;
    for (int64_t size : shape) {
      while (size != 1 && tensor.shape[from] == 1)
        ++from;
      result->stored.push_back(size == 1 ? 1 : tensor.stored[from++]);
    }
    return result;
  }
  const Shape to = computeStrides(shape), from = computeStrides(tensor.shape),
              steps = tensor.strides();
  return rearrange(tensor, Shape(shape), Shape(shape), [&](ArrayRef<int64_t> index) {
    int64_t linear = dot(index, to), offset = 0;
    for (size_t i = 0; i < from.size(); ++i)
      offset += linear / from[i] % tensor.shape[i] * steps[i];
    return offset;
  });
}

Tensor reshapeTensor(Conversion &node, const Tensor &tensor, ArrayRef<int64_t> shape) {
  if (tensor.host)
    if (Host constant = reshapeHost(*tensor.host, shape))
      return constant;
  return reshape(node.emit, node.value(tensor), shape);
}

Tensor transposeTensor(Conversion &node, const Tensor &tensor, ArrayRef<int64_t> perm) {
  if (!tensor.host)
    return transpose(node.emit, tensor.value, perm);
  const HostTensor &host = *tensor.host;
  const Shape steps = host.strides();
  Shape shape, stored, permuted;
  for (int64_t dim : perm) {
    shape.push_back(host.shape[dim]);
    stored.push_back(host.stored[dim]);
    permuted.push_back(steps[dim]);
  }
  return rearrange(host, shape, stored,
                   [&](ArrayRef<int64_t> index) { return dot(index, permuted); });
}

Tensor expandTensor(Conversion &node, const Tensor &tensor, ArrayRef<int64_t> shape) {
  if (tensor.host)
    return expandHost(tensor.host, shape);
  return broadcastTo(node.emit, tensor.value, shape);
}

/// dtc.slice counts upwards only: a descending slice joins single elements.
static Value reverseSlice(Emitter &emit, Value value, int64_t dim, int64_t offset, int64_t size,
                          int64_t stride) {
  SmallVector<Value> parts;
  for (int64_t i = 0; i < size; ++i)
    parts.push_back(sliceDim(emit, value, dim, offset + i * stride, 1));
  Shape shape(tensorType(value).getShape());
  shape[dim] = size;
  return graph::ConcatOp::create(emit, tensorType(value).clone(shape), parts, dim);
}

Tensor sliceTensor(Conversion &node, const Tensor &tensor, int64_t dim, int64_t offset,
                   int64_t size, int64_t stride) {
  if (!tensor.host && size == 0) {
    Shape shape = tensor.shape();
    shape[dim] = 0;
    return Tensor(HostTensor::splat(tensor.element(), shape, 0));
  }
  if (!tensor.host) {
    if (stride < 0 && size > 1)
      return reverseSlice(node.emit, tensor.value, dim, offset, size, stride);
    return sliceDim(node.emit, tensor.value, dim, offset, size, size > 1 ? stride : 1);
  }
  const HostTensor &host = *tensor.host;
  const Shape steps = host.strides();
  Shape shape = host.shape, stored = host.stored;
  shape[dim] = size;
  stored[dim] = size == 0 ? 0 : host.stored[dim] == 1 ? 1 : size;
  return rearrange(host, shape, stored, [&](ArrayRef<int64_t> index) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at += (int64_t(i) == dim ? offset + index[i] * stride : index[i]) * steps[i];
    return at;
  });
}

static Host concatHosts(ArrayRef<Tensor> parts, int64_t dim, const Shape &shape) {
  const HostTensor &first = *parts[0].host;
  Shape stored(shape.size(), 1);
  for (const Tensor &part : parts)
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] = std::max(stored[i], part.host->stored[i]);
  stored[dim] = shape[dim];
  for (size_t i = 0; i < stored.size(); ++i)
    if (shape[i] == 0)
      stored[i] = 0;
  if (!fitsConstant(first.element, stored))
    return {};
  auto result = std::make_shared<HostTensor>(first.element, shape, stored);
  const Shape steps = computeStrides(stored);
  int64_t start = 0;
  for (const Tensor &part : parts) {
    Shape region = stored;
    region[dim] = part.host->shape[dim];
    const Shape from = part.host->strides();
    forEachIndex(region, [&](ArrayRef<int64_t> index) {
      const int64_t to = dot(index, steps) + start * steps[dim], at = dot(index, from);
      if (result->isFloat())
        result->floats[to] = part.host->floats[at];
      else
        result->ints[to] = part.host->ints[at];
    });
    start += region[dim];
  }
  result->compress();
  return result;
}

FailureOr<Tensor> concatTensors(Conversion &node, ArrayRef<Tensor> parts, int64_t dim) {
  if (parts.empty())
    return LogicalResult(node.error() << "joins no tensors");
  Shape shape = parts[0].shape();
  bool constant = true;
  shape[dim] = 0;
  for (const Tensor &part : parts) {
    Shape other = part.shape();
    if (other.size() != shape.size() || part.element() != parts[0].element())
      return LogicalResult(node.error() << "joins tensors of different ranks or types");
    for (size_t i = 0; i < shape.size(); ++i)
      if (int64_t(i) != dim && other[i] != shape[i])
        return LogicalResult(node.error() << "joins tensors whose other sizes differ: " << shape[i]
                                          << " and " << other[i]);
    const io::CheckedSize joined = io::CheckedSize(shape[dim]) + other[dim];
    if (!joined)
      return LogicalResult(node.error() << "joins too many elements");
    shape[dim] = *joined;
    constant &= part.host != nullptr;
  }
  if (constant)
    if (Host result = concatHosts(parts, dim, shape))
      return Tensor(result);
  SmallVector<Value> values;
  for (const Tensor &part : parts)
    if (part.shape()[dim] != 0)
      values.push_back(node.value(part));
  if (values.size() == 1)
    return Tensor(values[0]);
  auto type = RankedTensorType::get(shape, parts[0].element());
  return Tensor(graph::ConcatOp::create(node.emit, type, values, dim).getResult());
}

FailureOr<Tensor> reverseSequence(Conversion &node, const Tensor &tensor, int64_t time,
                                  int64_t batch, ArrayRef<int64_t> lengths) {
  const Shape shape = tensor.shape();
  if (time == batch || int64_t(lengths.size()) != shape[batch])
    return LogicalResult(node.error() << "needs one length for each sample, beside the time");
  SmallVector<Tensor> samples;
  for (auto [i, length] : llvm::enumerate(lengths)) {
    if (length < 0 || length > shape[time])
      return LogicalResult(node.error() << "has a bad length of a sample: " << length);
    if (failed(node.chargeNodes(length + 3)))
      return failure();
    Tensor sample = sliceTensor(node, tensor, batch, i, 1);
    if (length > 1) {
      SmallVector<Tensor> parts = {sliceTensor(node, sample, time, length - 1, length, -1)};
      if (length < shape[time])
        parts.push_back(sliceTensor(node, sample, time, length, shape[time] - length));
      auto joined = concatTensors(node, parts, time);
      if (failed(joined))
        return failure();
      sample = *joined;
    }
    samples.push_back(sample);
  }
  return concatTensors(node, samples, batch);
}

} // namespace dtc::import
