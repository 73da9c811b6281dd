// Operators that take tensors apart and join them.
#include "AtenConverter.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Padding.h"

#include "dtc-io/CheckedSize.h"

using namespace mlir;

namespace dtc::import {

/// The tensor, and the dimension along which it is taken apart.
static FailureOr<std::pair<Tensor, int64_t>> tensorAlongDim(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto dim = node.axisOf("dim", self->rank(), 0);
  if (failed(dim))
    return failure();
  return std::pair(std::move(*self), *dim);
}

/// Where a slice runs along a dimension, as Python has it.
struct SlicedTensor {
  Tensor tensor;
  int64_t dim, from, count, step;
};

static FailureOr<SlicedTensor> sliceOf(AtenConverter &node) {
  auto self = tensorAlongDim(node);
  if (failed(self))
    return failure();
  const auto &[tensor, dim] = *self;
  const int64_t size = tensor.shape()[dim];
  auto start = node.integer("start", 0), end = node.integer("end", size);
  auto step = node.integer("step", 1);
  if (failed(start) || failed(end) || failed(step))
    return failure();
  if (*step < 1)
    return LogicalResult(node.error() << "has a step below 1: " << *step);
  auto within = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 && at >= -size ? at + size : at, 0, size);
  };
  const int64_t from = within(*start), to = std::max(within(*end), from);
  const int64_t count = (to - from) / *step + ((to - from) % *step != 0);
  return SlicedTensor{tensor, dim, from, count, *step};
}

static LogicalResult convertSlice(AtenConverter &node) {
  auto where = sliceOf(node);
  if (failed(where))
    return failure();
  return node.define(
      sliceTensor(node, where->tensor, where->dim, where->from, where->count, where->step));
}

static LogicalResult convertNarrow(AtenConverter &node) {
  auto self = node.tensor("self");
  auto length = node.integer("length"), start = node.integer("start");
  if (failed(self) || failed(length) || failed(start))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  if (failed(dim))
    return failure();
  const int64_t size = self->shape()[*dim];
  const int64_t from = *start < 0 ? *start + size : *start;
  if (from < 0 || from > size || *length < 0 || *length > size - from)
    return node.error() << "takes elements outside of the " << size << " there are";
  return node.define(sliceTensor(node, *self, *dim, from, *length));
}

/// One slice along a dimension, which vanishes.
static Tensor pick(AtenConverter &node, const Tensor &tensor, int64_t dim, int64_t index) {
  Shape shape = tensor.shape();
  shape.erase(shape.begin() + dim);
  return reshapeTensor(node, sliceTensor(node, tensor, dim, index, 1), shape);
}

/// Where one slice stands.
struct SelectedSlice {
  Tensor tensor;
  int64_t dim, index;
};

static FailureOr<SelectedSlice> selectedOf(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  auto index =
      failed(dim) ? FailureOr<int64_t>(failure()) : node.axisOf("index", self->shape()[*dim]);
  if (failed(index))
    return failure();
  return SelectedSlice{*self, *dim, *index};
}

static LogicalResult convertSelect(AtenConverter &node) {
  auto where = selectedOf(node);
  return failed(where) ? failure()
                       : node.define(pick(node, where->tensor, where->dim, where->index));
}

static LogicalResult convertUnbind(AtenConverter &node) {
  auto self = tensorAlongDim(node);
  if (failed(self))
    return failure();
  const auto &[tensor, dim] = *self;
  const int64_t size = tensor.shape()[dim];
  if (failed(node.chargeNodes(size)))
    return failure();
  for (int64_t i = 0; i < size; ++i)
    if (failed(node.define(i, pick(node, tensor, dim, i))))
      return failure();
  return success();
}

/// The sizes of the parts: given, all of one size but the last, or as many as are asked for.
static FailureOr<Shape> partSizes(AtenConverter &node, int64_t size) {
  if (node.op() == "aten.split_with_sizes" || node.overload() == "sizes")
    return node.integers(node.has("split_sizes") ? "split_sizes" : "split_size");
  const bool chunks = node.op() == "aten.chunk";
  auto number = node.integer(chunks ? "chunks" : "split_size");
  if (failed(number))
    return failure();
  if (*number < 1)
    return LogicalResult(node.error() << "cannot make parts of a tensor: " << *number);
  const int64_t part = chunks ? std::max<int64_t>((size - 1) / *number + 1, 1) : *number;
  if (failed(node.chargeNodes(size / part + 1)))
    return failure();
  Shape sizes;
  for (int64_t done = 0; done < size; done += sizes.back())
    sizes.push_back(std::min(part, size - done));
  return sizes;
}

static LogicalResult convertSplit(AtenConverter &node) {
  auto self = tensorAlongDim(node);
  if (failed(self))
    return failure();
  const auto &[tensor, dim] = *self;
  auto sizes = partSizes(node, tensor.shape()[dim]);
  if (failed(sizes))
    return failure();
  io::CheckedSize all = 0;
  for (int64_t size : *sizes)
    all = all + io::CheckedSize(size);
  if (!all || *all != tensor.shape()[dim])
    return node.error() << "has parts that are not the whole: " << listed(*sizes);
  int64_t done = 0;
  for (auto [i, size] : llvm::enumerate(*sizes)) {
    if (failed(node.define(i, sliceTensor(node, tensor, dim, done, size))))
      return failure();
    done += size;
  }
  return success();
}

static LogicalResult convertCat(AtenConverter &node) {
  auto parts = node.tensors("tensors");
  if (failed(parts))
    return failure();
  // Empty tensors of one dimension join anything.
  llvm::erase_if(*parts, [](const Tensor &part) { return part.shape() == Shape{0}; });
  if (parts->empty())
    return node.error() << "joins no tensors";
  auto dim = node.axisOf("dim", parts->front().rank(), 0);
  return failed(dim) ? failure() : node.define(concatTensors(node, *parts, *dim));
}

static LogicalResult convertStack(AtenConverter &node) {
  auto parts = node.tensors("tensors");
  if (failed(parts))
    return failure();
  if (parts->empty())
    return node.error() << "joins no tensors";
  auto dim = node.axisOf("dim", parts->front().rank() + 1, 0);
  if (failed(dim) || failed(node.chargeNodes(parts->size())))
    return failure();
  for (Tensor &part : *parts) {
    if (part.rank() < *dim)
      return node.error() << "joins tensors of different ranks";
    Shape shape = part.shape();
    shape.insert(shape.begin() + *dim, 1);
    part = reshapeTensor(node, part, shape);
  }
  return node.define(concatTensors(node, *parts, *dim));
}

/// What F.pad calls the mode, and what the operators are called that do nothing else. None where
/// the pads are a constant, or where there is no such mode.
static std::optional<PadMode> padModeOf(StringRef op, StringRef mode) {
  auto is = [&](StringRef name, StringRef prefix) {
    return mode == name || op.starts_with(prefix);
  };
  if (is("replicate", "aten.replication_pad"))
    return PadMode::Edge;
  if (is("reflect", "aten.reflection_pad"))
    return PadMode::Reflect;
  return mode == "circular" ? std::optional(PadMode::Wrap) : std::nullopt;
}

/// Pairs from the last dimension backwards: [left, right, top, bottom]. Those below 0 cut.
static LogicalResult convertPad(AtenConverter &node) {
  auto self = node.tensor("self");
  auto amounts = node.integers(node.has("padding") ? "padding" : "pad");
  auto mode = node.text("mode", "constant");
  auto value = node.number("value", 0);
  if (failed(self) || failed(amounts) || failed(mode) || failed(value))
    return failure();
  const auto fromElements = padModeOf(node.op(), *mode);
  if (*mode != "constant" && !fromElements)
    return node.error() << "has an unknown mode: " << *mode;
  Tensor kept = *self;
  const int64_t rank = kept.rank(), pairs = amounts->size() / 2;
  if (amounts->size() % 2 != 0 || pairs > rank)
    return node.error() << "needs a pair for each of its last dimensions: " << listed(*amounts);
  Shape low(rank, 0), high(rank, 0), shape = kept.shape();
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t before = (*amounts)[2 * i], after = (*amounts)[2 * i + 1];
    const int64_t dim = rank - 1 - i, size = shape[dim];
    if (std::min(before, after) < -INT32_MAX || std::max(before, after) > INT32_MAX)
      return node.error() << "pads its input too much: " << listed(*amounts);
    const int64_t cutBefore = std::max<int64_t>(-before, 0),
                  cutAfter = std::max<int64_t>(-after, 0);
    if (cutBefore + cutAfter > 0 && cutBefore + cutAfter >= size)
      return node.error() << "cuts its input to nothing: " << listed(*amounts);
    if (cutBefore + cutAfter > 0)
      kept = sliceTensor(node, kept, dim, cutBefore, size - cutBefore - cutAfter);
    low[dim] = std::max<int64_t>(before, 0);
    high[dim] = std::max<int64_t>(after, 0);
    shape[dim] += before + after;
  }
  if (failed(node.checkShape(shape)))
    return failure();
  if (!fromElements)
    return node.define(pad(node.emit, node.value(kept), low, high, *value));
  auto padded = padFromElements(node, node.value(kept), low, high, *fromElements);
  return failed(padded) ? failure() : node.define(*padded);
}

/// Differences of neighbours along a dimension, where `prepend` and `append` stand before and
/// behind.
static LogicalResult convertDiff(AtenConverter &node) {
  auto self = node.tensor("self");
  auto n = node.integer("n", 1);
  if (failed(self) || failed(n))
    return failure();
  if (*n != 1)
    return node.error() << "is supported once only: " << *n;
  auto dim = node.axisOf("dim", self->rank(), -1);
  if (failed(dim))
    return failure();
  SmallVector<Tensor> parts = {*self};
  for (const char *name : {"prepend", "append"}) {
    if (!node.has(name))
      continue;
    auto part = node.tensor(name);
    if (failed(part))
      return failure();
    parts.insert(StringRef(name) == "prepend" ? parts.begin() : parts.end(), *part);
  }
  auto all = concatTensors(node, parts, *dim);
  if (failed(all))
    return failure();
  const int64_t count = all->shape()[*dim] - 1;
  if (count < 1)
    return node.error() << "has no neighbours";
  const bool bits = all->element().isInteger(1);
  return node.define(binary(node, bits ? "Xor" : "Sub", sliceTensor(node, *all, *dim, 1, count),
                            sliceTensor(node, *all, *dim, 0, count)));
}

/// The source in the shape and the element type of `part`, as PyTorch's copy has it.
static FailureOr<Tensor> copyOf(AtenConverter &node, const Tensor &part) {
  auto source = node.tensor("src");
  if (failed(source))
    return failure();
  const Shape from = source->shape(), to = part.shape();
  auto common = broadcastShapes({from, to});
  if (failed(common) || *common != to)
    return LogicalResult(node.error() << "cannot copy " << listed(from) << " to " << listed(to));
  auto converted = cast(node, *source, part.element());
  if (failed(converted))
    return failure();
  return expandTensor(node, *converted, to);
}

static LogicalResult convertCopy(AtenConverter &node) {
  auto self = node.tensor("self");
  return failed(self) ? failure() : node.define(copyOf(node, *self));
}

static LogicalResult convertFill(AtenConverter &node) {
  auto self = node.tensor("self");
  auto filling = node.operand("value");
  if (failed(self) || failed(filling))
    return failure();
  auto value = cast(node, filling->tensor, self->element());
  return failed(value) ? failure() : node.define(expandTensor(node, *value, self->shape()));
}

/// The tensor with `part` in the place of its elements from `offset` on.
static LogicalResult replacePart(AtenConverter &node, const Tensor &tensor, int64_t dim,
                                 int64_t offset, Tensor part) {
  const int64_t size = tensor.shape()[dim], end = offset + part.shape()[dim];
  SmallVector<Tensor> parts;
  if (offset > 0)
    parts.push_back(sliceTensor(node, tensor, dim, 0, offset));
  parts.push_back(std::move(part));
  if (end < size)
    parts.push_back(sliceTensor(node, tensor, dim, end, size - end));
  return node.define(concatTensors(node, parts, dim));
}

static LogicalResult convertSelectScatter(AtenConverter &node) {
  auto where = selectedOf(node);
  if (failed(where))
    return failure();
  const auto &[tensor, dim, index] = *where;
  auto source = copyOf(node, pick(node, tensor, dim, index));
  if (failed(source))
    return failure();
  Shape shape = source->shape();
  shape.insert(shape.begin() + dim, 1);
  return replacePart(node, tensor, dim, index, reshapeTensor(node, *source, shape));
}

/// From the slice's first element to its last one: the source's, and between them the tensor's own.
/// Each but the last begins a row of `step` elements.
static FailureOr<Tensor> interleaved(AtenConverter &node, const SlicedTensor &where,
                                     const Tensor &source) {
  const auto &[tensor, dim, from, count, step] = where;
  if (step == 1 || count == 1)
    return source;
  Shape rows = source.shape();
  rows[dim] = count - 1;
  rows.insert(rows.begin() + dim + 1, step);
  Tensor own = reshapeTensor(node, sliceTensor(node, tensor, dim, from, (count - 1) * step), rows);
  rows[dim + 1] = 1;
  Tensor first = reshapeTensor(node, sliceTensor(node, source, dim, 0, count - 1), rows);
  auto joined = concatTensors(node, {first, sliceTensor(node, own, dim + 1, 1, step - 1)}, dim + 1);
  if (failed(joined))
    return failure();
  Shape shape = source.shape();
  shape[dim] = (count - 1) * step;
  return concatTensors(
      node, {reshapeTensor(node, *joined, shape), sliceTensor(node, source, dim, count - 1, 1)},
      dim);
}

static LogicalResult convertSliceScatter(AtenConverter &node) {
  auto where = sliceOf(node);
  if (failed(where))
    return failure();
  const auto &[tensor, dim, from, count, step] = *where;
  if (count == 0)
    return node.define(tensor);
  auto source = copyOf(node, sliceTensor(node, tensor, dim, from, count, step));
  if (failed(source))
    return failure();
  auto part = interleaved(node, *where, *source);
  if (failed(part))
    return failure();
  return replacePart(node, tensor, dim, from, *part);
}

void addParts(AtenTable &table) {
  table["aten.slice"] = convertSlice;
  table["aten.slice_scatter"] = convertSliceScatter;
  table["aten.narrow"] = convertNarrow;
  table["aten.select"] = convertSelect;
  table["aten.select_scatter"] = convertSelectScatter;
  table["aten.copy"] = convertCopy;
  table["aten.fill"] = convertFill;
  table["aten.unbind"] = convertUnbind;
  for (const char *op : {"aten.split", "aten.split_with_sizes", "aten.chunk"})
    table[op] = convertSplit;
  for (const char *op : {"aten.cat", "aten.concat"})
    table[op] = convertCat;
  table["aten.stack"] = convertStack;
  for (const char *op : {"aten.pad", "aten.constant_pad_nd", "aten.reflection_pad1d",
                         "aten.reflection_pad2d", "aten.reflection_pad3d", "aten.replication_pad1d",
                         "aten.replication_pad2d", "aten.replication_pad3d"})
    table[op] = convertPad;
  table["aten.diff"] = convertDiff;
}

} // namespace dtc::import
