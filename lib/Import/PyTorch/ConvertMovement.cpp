// Operators that rearrange elements, and those that only give a tensor another name.
#include "AtenConverter.h"

#include "dtc/Import/Build/Dropout.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/StopGradient.h"
#include "dtc/Import/Unsupported.h"

#include "dtc-io/CheckedSize.h"

using namespace mlir;

namespace dtc::import {

/// The tensor self as it is.
static LogicalResult convertAlias(AtenConverter &node) {
  auto self = node.tensor("self");
  return failed(self) ? failure() : node.define(*self);
}

/// Detached values, and results of torch.no_grad().
static LogicalResult convertDetach(AtenConverter &node) {
  auto self = node.tensor("self");
  return failed(self) ? failure() : node.define(stopGradient(node, *self));
}

static LogicalResult convertDropout(AtenConverter &node) {
  auto self = node.tensor(node.has("input") ? "input" : "self"); // in place it is self
  auto p = node.number("p");
  auto train = node.boolean("train");
  if (failed(self) || failed(p) || failed(train))
    return failure();
  return *train ? node.define(dropout(node, *self, *p)) : node.define(*self);
}

/// The overloads of `to` differ in how they say the element type.
static LogicalResult convertTo(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto type = node.type("dtype", self->element());
  if (node.has("other")) {
    auto other = node.tensor("other");
    if (failed(other))
      return failure();
    type = other->element();
  }
  return failed(type) ? failure() : node.define(cast(node, *self, *type));
}

/// The sizes that PyTorch's view means: -1 is what remains.
static FailureOr<Shape> resolve(AtenConverter &node, int64_t count, Shape shape) {
  const Shape asked = shape;
  int64_t *open = nullptr;
  io::CheckedSize known = 1;
  for (int64_t &size : shape) {
    if (size == -1 && !open)
      open = &size;
    else
      known = known * io::CheckedSize(size);
  }
  if (open && known && *known != 0)
    *open = count / *known;
  const auto elements = io::CheckedSize::product(shape);
  if (!elements || *elements != count)
    return LogicalResult(node.error()
                         << "cannot give " << count << " elements the shape " << listed(asked));
  return shape;
}

static LogicalResult convertView(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  if (node.op() == "aten.view_as" || node.op() == "aten.reshape_as") {
    auto other = node.tensor("other");
    if (failed(other))
      return failure();
    auto shape = resolve(node, product(self->shape()), other->shape());
    return failed(shape) ? failure() : node.define(reshapeTensor(node, *self, *shape));
  }
  auto asked = node.integers(node.has("shape") ? "shape" : "size");
  if (failed(asked))
    return failure();
  auto shape = resolve(node, product(self->shape()), *asked);
  return failed(shape) ? failure() : node.define(reshapeTensor(node, *self, *shape));
}

static LogicalResult convertFlatten(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  const Shape shape = self->shape();
  if (shape.empty())
    return node.define(reshapeTensor(node, *self, {1}));
  auto start = node.axisOf("start_dim", shape.size(), 0);
  auto end = node.axisOf("end_dim", shape.size(), -1);
  if (failed(start) || failed(end))
    return failure();
  if (*start > *end)
    return node.error() << "ends before it starts";
  Shape flat(shape.begin(), shape.begin() + *start);
  flat.push_back(product(ArrayRef(shape).slice(*start, *end - *start + 1)));
  flat.append(shape.begin() + *end + 1, shape.end());
  return node.define(reshapeTensor(node, *self, flat));
}

static LogicalResult convertUnflatten(AtenConverter &node) {
  auto self = node.tensor("self");
  auto sizes = node.integers("sizes");
  if (failed(self) || failed(sizes))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  if (failed(dim))
    return failure();
  Shape shape = self->shape();
  auto inner = resolve(node, shape[*dim], *sizes);
  if (failed(inner))
    return failure();
  shape.erase(shape.begin() + *dim);
  shape.insert(shape.begin() + *dim, inner->begin(), inner->end());
  return node.define(reshapeTensor(node, *self, shape));
}

static LogicalResult convertUnsqueeze(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto dim = node.axisOf("dim", self->rank() + 1);
  if (failed(dim))
    return failure();
  Shape shape = self->shape();
  shape.insert(shape.begin() + *dim, 1);
  return node.define(reshapeTensor(node, *self, shape));
}

/// Dimensions of size 1 vanish; others stay as they are.
static LogicalResult convertSqueeze(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto dims = node.axesOf("dim", self->rank());
  if (failed(dims))
    return failure();
  const Shape shape = self->shape();
  Shape kept;
  for (int64_t i = 0; i < self->rank(); ++i)
    if (shape[i] != 1 || !llvm::is_contained(*dims, i))
      kept.push_back(shape[i]);
  return node.define(reshapeTensor(node, *self, kept));
}

/// Two dimensions exchanged: transpose, t and mT.
static LogicalResult convertTranspose(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  const int64_t rank = self->rank();
  if (node.op() == "aten.t" && rank < 2)
    return node.define(*self);
  const std::string op = node.op();
  const bool matrix = op == "aten.t" || op == "aten.mT", axes = op == "aten.swapaxes";
  auto first = matrix ? node.axis(-2, rank) : node.axisOf(axes ? "axis0" : "dim0", rank);
  auto second = matrix ? node.axis(-1, rank) : node.axisOf(axes ? "axis1" : "dim1", rank);
  if (failed(first) || failed(second))
    return failure();
  Shape perm = llvm::to_vector(llvm::seq<int64_t>(rank));
  std::swap(perm[*first], perm[*second]);
  return node.define(transposeTensor(node, *self, perm));
}

/// x.T: all dimensions in reverse.
static LogicalResult convertReversed(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  Shape perm = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(self->rank())));
  return node.define(transposeTensor(node, *self, perm));
}

static LogicalResult convertPermute(AtenConverter &node) {
  auto self = node.tensor("self");
  auto dims = node.integers("dims");
  if (failed(self) || failed(dims))
    return failure();
  Shape perm;
  for (int64_t dim : *dims) {
    auto at = node.axis(dim, self->rank());
    if (failed(at))
      return failure();
    perm.push_back(*at);
  }
  Shape sorted = perm;
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(self->rank())))
    return node.error() << "does not name every dimension once: " << listed(*dims);
  return node.define(transposeTensor(node, *self, perm));
}

/// Some dimensions take other places; the others keep their order.
static LogicalResult convertMoveDim(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto read = [&](StringRef name) -> FailureOr<Shape> {
    const Argument *given = node.argument(name);
    const bool isList = given && given->as<ArgumentList>();
    auto one = isList ? FailureOr<int64_t>(0) : node.integer(name);
    auto several = isList ? node.integers(name) : FailureOr<Shape>(Shape());
    if (failed(one) || failed(several))
      return failure();
    Shape dims;
    for (int64_t each : isList ? *several : Shape{*one}) {
      auto at = node.axis(each, self->rank());
      if (failed(at))
        return failure();
      dims.push_back(*at);
    }
    return dims;
  };
  auto from = read("source"), to = read("destination");
  if (failed(from) || failed(to))
    return failure();
  Shape perm(self->rank(), -1);
  for (size_t i = 0; i < from->size() && from->size() == to->size(); ++i)
    perm[(*to)[i]] = (*from)[i];
  int64_t next = 0;
  for (int64_t &place : perm) {
    while (llvm::is_contained(*from, next))
      ++next;
    place = place < 0 ? next++ : place;
  }
  Shape sorted = perm;
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(self->rank())))
    return node.error() << "does not move every dimension once: " << listed(*from) << " to "
                        << listed(*to);
  return node.define(transposeTensor(node, *self, perm));
}

/// -1 keeps a size; new dimensions come first.
static LogicalResult convertExpand(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  FailureOr<Shape> asked = Shape();
  if (node.op() == "aten.expand_as") {
    auto other = node.tensor("other");
    if (failed(other))
      return failure();
    *asked = other->shape();
  } else {
    asked = node.integers("size");
  }
  if (failed(asked))
    return failure();
  const Shape from = self->shape();
  Shape shape = *asked;
  const size_t lead = shape.size() - std::min(shape.size(), from.size());
  for (size_t i = lead; i < shape.size(); ++i)
    if (shape[i] == -1)
      shape[i] = from[i - lead];
  auto common = broadcastShapes({from, shape});
  if (shape.size() < from.size() || failed(common) || *common != shape ||
      failed(node.checkShape(shape)))
    return node.error() << "cannot expand " << listed(from) << " to " << listed(*asked);
  return node.define(expandTensor(node, *self, shape));
}

/// All in the shape that they have together.
static LogicalResult convertBroadcastTensors(AtenConverter &node) {
  auto tensors = node.tensors("tensors");
  if (failed(tensors))
    return failure();
  SmallVector<Shape> shapes = llvm::map_to_vector(*tensors, std::mem_fn(&Tensor::shape));
  auto shape = broadcastShapes(shapes);
  if (failed(shape) || tensors->size() > node.node.results.size())
    return node.error() << "operands of shapes that do not broadcast";
  if (failed(node.checkShape(*shape)))
    return failure();
  for (auto [i, tensor] : llvm::enumerate(*tensors))
    if (failed(node.define(i, expandTensor(node, tensor, *shape))))
      return failure();
  return success();
}

/// Along a dimension, what leaves at the end comes in at the start.
static FailureOr<Tensor> rollAlong(AtenConverter &node, const Tensor &tensor, int64_t dim,
                                   int64_t shift) {
  const int64_t size = tensor.shape()[dim];
  shift = size ? (shift % size + size) % size : 0;
  if (shift == 0)
    return tensor;
  return concatTensors(node,
                       {sliceTensor(node, tensor, dim, size - shift, shift),
                        sliceTensor(node, tensor, dim, 0, size - shift)},
                       dim);
}

/// Without dimensions the tensor is rolled as one row.
static LogicalResult convertRoll(AtenConverter &node) {
  auto self = node.tensor("self");
  auto shifts = node.integers("shifts"), dims = node.integers("dims", Shape());
  if (failed(self) || failed(shifts) || failed(dims))
    return failure();
  const Shape shape = self->shape();
  FailureOr<Tensor> result = *self;
  if (dims->empty()) {
    result = reshapeTensor(node, *self, {product(shape)});
    dims->push_back(0);
  }
  if (shifts->size() != dims->size())
    return node.error() << "needs a shift for each dimension";
  for (auto [dim, shift] : llvm::zip(*dims, *shifts)) {
    auto at = node.axis(dim, result->rank());
    result = failed(at) ? FailureOr<Tensor>(failure()) : rollAlong(node, *result, *at, shift);
    if (failed(result))
      return failure();
  }
  return node.define(reshapeTensor(node, *result, shape));
}

static LogicalResult convertFlip(AtenConverter &node) {
  auto self = node.tensor("self");
  auto dims = node.integers("dims");
  if (failed(self) || failed(dims))
    return failure();
  Tensor result = *self;
  for (int64_t dim : *dims) {
    auto at = node.axis(dim, result.rank());
    if (failed(at))
      return failure();
    const int64_t size = result.shape()[*at];
    if (size > 1)
      result = sliceTensor(node, result, *at, size - 1, size, -1);
  }
  return node.define(result);
}

/// [..., C r r, H, W] to [..., C, H r, W r], and back.
static LogicalResult convertPixelShuffle(AtenConverter &node) {
  auto self = node.tensor("self");
  const bool back = node.op() == "aten.pixel_unshuffle";
  auto factor = node.integer(back ? "downscale_factor" : "upscale_factor");
  if (failed(self) || failed(factor))
    return failure();
  Shape shape = self->shape();
  const int64_t rank = shape.size(), r = *factor;
  const bool isSquare = r > 0 && r < (int64_t(1) << 20) && rank >= 3;
  if (!isSquare || (back ? shape[rank - 2] % r || shape[rank - 1] % r : shape[rank - 3] % (r * r)))
    return node.error() << "cannot divide " << listed(shape) << " by " << r;
  Shape apart(shape.begin(), shape.end() - 3), perm = llvm::to_vector(llvm::seq<int64_t>(rank + 2));
  Shape joined = apart;
  const int64_t c = shape[rank - 3], h = shape[rank - 2], w = shape[rank - 1], first = rank - 3;
  const Shape inner = back ? Shape{c, h / r, r, w / r, r} : Shape{c / (r * r), r, r, h, w};
  const Shape outer = back ? Shape{c * r * r, h / r, w / r} : Shape{c / (r * r), h * r, w * r};
  const Shape order = back ? Shape{0, 2, 4, 1, 3} : Shape{0, 3, 1, 4, 2};
  apart.append(inner);
  joined.append(outer);
  for (size_t i = 0; i < order.size(); ++i)
    perm[first + i] = first + order[i];
  Tensor moved = transposeTensor(node, reshapeTensor(node, *self, apart), perm);
  return node.define(reshapeTensor(node, moved, joined));
}

/// As often in each dimension as the list says; new dimensions come first.
static LogicalResult convertRepeat(AtenConverter &node) {
  auto self = node.tensor("self");
  auto repeats = node.integers(node.op() == "aten.tile" ? "dims" : "repeats");
  if (failed(self) || failed(repeats))
    return failure();
  Shape from = self->shape();
  const int64_t rank = std::max(repeats->size(), from.size());
  from.insert(from.begin(), rank - from.size(), 1);
  repeats->insert(repeats->begin(), rank - repeats->size(), 1);
  Shape apart, spread, joined;
  for (auto [times, size] : llvm::zip_equal(*repeats, from)) {
    if (times < 1 || times > Budget::kMostElements)
      return node.error() << "repeats a dimension too often, or not at all: " << times;
    apart.append({1, size});
    spread.append({times, size});
  }
  if (failed(node.checkShape(spread)))
    return failure();
  for (auto [times, size] : llvm::zip_equal(*repeats, from))
    joined.push_back(times * size);
  Tensor repeated = expandTensor(node, reshapeTensor(node, *self, apart), spread);
  return node.define(reshapeTensor(node, repeated, joined));
}

/// Each element several times in a row.
static LogicalResult convertRepeatInterleave(AtenConverter &node) {
  auto self = node.tensor("self");
  auto repeats = node.integer("repeats");
  if (failed(self) || failed(repeats))
    return failure();
  Tensor tensor = *self;
  if (!node.has("dim"))
    tensor = reshapeTensor(node, tensor, {product(tensor.shape())});
  auto dim = node.axisOf("dim", tensor.rank(), 0);
  if (failed(dim))
    return failure();
  if (*repeats < 1 || *repeats > Budget::kMostElements)
    return node.error() << "repeats elements too often, or not at all: " << *repeats;
  Shape apart = tensor.shape(), joined = apart;
  apart.insert(apart.begin() + *dim + 1, 1);
  Shape spread = apart;
  spread[*dim + 1] = *repeats;
  if (failed(node.checkShape(spread)))
    return failure();
  joined[*dim] *= *repeats;
  tensor = expandTensor(node, reshapeTensor(node, tensor, apart), spread);
  return node.define(reshapeTensor(node, tensor, joined));
}

void addMovement(AtenTable &table) {
  for (const char *op : {"aten.alias", "aten.contiguous", "aten.clone", "aten.lift_fresh_copy",
                         "aten.lift_fresh", "aten.positive"})
    table[op] = convertAlias;
  table["aten.detach"] = convertDetach;
  table["aten.dropout"] = convertDropout;
  table["aten.native_dropout"] = convertDropout;
  for (const char *op : {"aten.to", "aten.type_as", "aten._to_copy"})
    table[op] = convertTo;
  for (const char *op :
       {"aten.view", "aten.view_as", "aten.reshape", "aten.reshape_as", "aten._unsafe_view"})
    table[op] = convertView;
  table["aten.flatten"] = convertFlatten;
  table["aten.unflatten"] = convertUnflatten;
  table["aten.unsqueeze"] = convertUnsqueeze;
  table["aten.squeeze"] = convertSqueeze;
  for (const char *op : {"aten.transpose", "aten.swapaxes", "aten.swapdims", "aten.t", "aten.mT"})
    table[op] = convertTranspose;
  table["aten.numpy_T"] = convertReversed;
  table["aten.permute"] = convertPermute;
  table["aten.movedim"] = convertMoveDim;
  for (const char *op : {"aten.expand", "aten.expand_as"})
    table[op] = convertExpand;
  table["aten.broadcast_tensors"] = convertBroadcastTensors;
  for (const char *op : {"aten.repeat", "aten.tile"})
    table[op] = convertRepeat;
  table["aten.roll"] = convertRoll;
  table["aten.flip"] = convertFlip;
  for (const char *op : {"aten.pixel_shuffle", "aten.pixel_unshuffle"})
    table[op] = convertPixelShuffle;
  table["aten.repeat_interleave"] = convertRepeatInterleave;
}

} // namespace dtc::import
