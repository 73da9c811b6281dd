// Operators that address elements by value.
#include "AtenConverter.h"
#include "Indexed.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/GatherAt.h"
#include "dtc/Import/Build/Lookup.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Build/Selection.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertEmbedding(AtenConverter &node) {
  auto weight = node.tensor("weight"), indices = node.tensor("indices");
  auto padding = node.integer("padding_idx", -1);
  if (failed(weight) || failed(indices) || failed(padding))
    return failure();
  auto byFrequency = node.boolean("scale_grad_by_freq", false);
  if (failed(byFrequency))
    return failure();
  if (weight->rank() != 2)
    return node.error() << "needs a table of two dimensions";
  if (*byFrequency)
    return unsupported(node.error()) << "divides gradients by how often a row is looked up "
                                        "(scale_grad_by_freq), which is not supported";
  auto rows = gatherTensor(node, *weight, *indices, 0);
  if (failed(rows))
    return failure();
  // The row that gets no gradient where the lookup is by values of the graph.
  if (*padding >= 0 && rows->value)
    if (auto gather = rows->value.getDefiningOp<graph::GatherOp>())
      if (*padding < weight->shape()[0])
        gather.setPaddingRow(*padding);
  return node.define(*rows);
}

/// How many of the indices each bag has. Where they begin must be known here.
static FailureOr<Shape> bagSizes(AtenConverter &node, int64_t count) {
  auto offsets = node.tensor("offsets");
  auto hasLast = node.boolean("include_last_offset", false);
  if (failed(offsets) || failed(hasLast))
    return failure();
  if (!offsets->host || offsets->rank() != 1)
    return LogicalResult(unsupported(node.error()) << "has bags whose sizes depend on data");
  Shape begins(offsets->host->intList());
  if (!*hasLast)
    begins.push_back(count);
  Shape sizes;
  for (size_t i = 0; i + 1 < begins.size(); ++i)
    sizes.push_back(begins[i + 1] - begins[i]);
  if (sizes.empty() || begins.front() != 0 || begins.back() != count ||
      llvm::any_of(sizes, [](int64_t size) { return size < 0; }))
    return LogicalResult(node.error() << "has bags that do not cover its indices");
  return sizes;
}

namespace {
/// Rows of a table, [.., row, feature], and which of them count.
struct Bag {
  Tensor rows;
  std::optional<Tensor> counted;
};
} // namespace

static FailureOr<Tensor> reduceBag(AtenConverter &node, const Bag &bag, bool mean) {
  const Shape axes = {bag.rows.rank() - 2};
  if (!bag.counted)
    return reduceTensor(node, mean ? "ReduceMean" : "ReduceSum", bag.rows, axes, false);
  const Tensor zero = HostTensor::splat(bag.rows.element(), {}, 0),
               one = HostTensor::splat(bag.rows.element(), {}, 1);
  auto rows = select(node, *bag.counted, bag.rows, zero);
  auto sum = failed(rows) ? rows : reduceTensor(node, "ReduceSum", *rows, axes, false);
  if (!mean || failed(sum))
    return sum;
  auto counted = cast(node, *bag.counted, bag.rows.element());
  auto count = failed(counted) ? counted : reduceTensor(node, "ReduceSum", *counted, axes, false);
  auto divisor = failed(count) ? count : binary(node, "Max", *count, one);
  return failed(divisor) ? divisor : binary(node, "Div", *sum, *divisor);
}

/// The rows that are looked up, by bag where all are of one size.
static FailureOr<Bag> rowsOfBags(AtenConverter &node, ArrayRef<int64_t> lead) {
  auto weight = node.tensor("weight"), indices = node.tensor("indices");
  auto scales = node.optionalTensor("per_sample_weights");
  auto padding = node.integer("padding_idx", -1);
  if (failed(weight) || failed(indices) || failed(scales) || failed(padding))
    return failure();
  Shape each(lead);
  each.push_back(1);
  const Tensor at = reshapeTensor(node, *indices, lead);
  auto rows = gatherTensor(node, *weight, at, 0);
  if (succeeded(rows) && *scales)
    rows = binary(node, "Mul", *rows, reshapeTensor(node, **scales, each));
  if (failed(rows))
    return failure();
  Bag bag{*rows, std::nullopt};
  const bool fromEnd = node.op() == "aten.embedding_bag" && node.has("padding_idx");
  const int64_t row = *padding + (*padding < 0 && fromEnd ? weight->shape()[0] : 0);
  if (row < 0)
    return bag;
  const Tensor none = HostTensor::splat(at.element(), {}, double(row));
  auto isPadding = binary(node, "Equal", reshapeTensor(node, at, each), none);
  auto counted = failed(isPadding) ? isPadding : unary(node, "Not", *isPadding);
  if (failed(counted))
    return failure();
  bag.counted = *counted;
  return bag;
}

/// Bags of several sizes, one after another.
static FailureOr<Tensor> reduceEach(AtenConverter &node, const Bag &all, ArrayRef<int64_t> sizes,
                                    bool mean) {
  if (failed(node.chargeNodes(4 * int64_t(sizes.size()))))
    return failure();
  const int64_t width = all.rows.shape()[1];
  std::vector<Tensor> results;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    Bag bag{sliceTensor(node, all.rows, 0, begin, size), std::nullopt};
    if (all.counted)
      bag.counted = sliceTensor(node, *all.counted, 0, begin, size);
    auto result = size > 0 ? reduceBag(node, bag, mean)
                           : Tensor(HostTensor::splat(all.rows.element(), {width}, 0));
    if (failed(result))
      return failure();
    results.push_back(reshapeTensor(node, *result, {1, width}));
    begin += size;
  }
  return concatTensors(node, results, 0);
}

static LogicalResult convertEmbeddingBag(AtenConverter &node) {
  auto weight = node.tensor("weight"), indices = node.tensor("indices");
  auto mode = node.integer("mode", 0);
  auto scales = node.boolean("scale_grad_by_freq", false);
  if (failed(weight) || failed(indices) || failed(mode) || failed(scales))
    return failure();
  if (weight->rank() != 2 || indices->rank() != 1)
    return node.error() << "needs a table of two dimensions, and indices of one";
  if ((*mode != 0 && *mode != 1) || *scales)
    return unsupported(node.error()) << "is supported for sums and means only, as they are";
  const int64_t count = indices->shape()[0];
  auto sizes = bagSizes(node, count);
  if (failed(sizes))
    return failure();
  const bool equal = llvm::all_equal(*sizes) && sizes->front() > 0;
  auto rows =
      rowsOfBags(node, equal ? Shape{int64_t(sizes->size()), sizes->front()} : Shape{count});
  if (failed(rows))
    return failure();
  return node.define(equal ? reduceBag(node, *rows, *mode == 1)
                           : reduceEach(node, *rows, *sizes, *mode == 1));
}

static LogicalResult convertGather(AtenConverter &node) {
  auto self = node.tensor("self"), index = node.tensor("index");
  if (failed(self) || failed(index))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  return failed(dim) ? failure() : node.define(gatherElements(node, *self, *index, *dim));
}

static LogicalResult convertIndexSelect(AtenConverter &node) {
  auto self = node.tensor("self"), index = node.tensor("index");
  if (failed(self) || failed(index))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  return failed(dim) ? failure() : node.define(gatherTensor(node, *self, *index, *dim));
}

/// The dimensions that are indexed, and by what.
static FailureOr<Indexed> readParts(AtenConverter &node, int64_t rank) {
  const Argument *given = node.argument("indices");
  const ArgumentList *list = given ? given->as<ArgumentList>() : nullptr;
  if (!list || list->size() > size_t(rank))
    return LogicalResult(node.error() << "needs a list of indices");
  auto parts = node.presentTensors("indices");
  if (failed(parts))
    return failure();
  Indexed indexed;
  for (auto [dim, each] : llvm::enumerate(*list))
    if (!each.isNone())
      indexed.dims.push_back(dim);
  for (const Tensor &part : *parts) {
    if (part.element().isInteger(1))
      return LogicalResult(node.error() << "selects by truths, whose number depends on data");
    if (!isa<IntegerType>(part.element()))
      return LogicalResult(node.error() << "needs integer indices");
    indexed.parts.push_back(part);
  }
  if (indexed.parts.empty())
    return LogicalResult(node.error() << "has no indices");
  return indexed;
}

FailureOr<Indexed> readIndices(AtenConverter &node, int64_t rank) {
  auto indexed = readParts(node, rank);
  if (failed(indexed))
    return failure();
  SmallVector<Shape> shapes;
  for (const Tensor &part : indexed->parts)
    shapes.push_back(part.shape());
  auto lead = broadcastShapes(shapes);
  if (failed(lead) || failed(node.checkShape(*lead)))
    return LogicalResult(node.error() << "indices of shapes that do not broadcast");
  for (Tensor &part : indexed->parts)
    part = expandTensor(node, part, *lead);
  const Shape &dims = indexed->dims;
  indexed->toFront = dims;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(dims, i))
      indexed->toFront.push_back(i);
  const bool together = dims.back() - dims.front() + 1 == int64_t(dims.size());
  const int64_t before = together ? dims.front() : 0, count = lead->size();
  for (int64_t i = 0; i < before; ++i)
    indexed->toPlace.push_back(count + i);
  for (int64_t i = 0; i < count; ++i)
    indexed->toPlace.push_back(i);
  for (int64_t i = count + before; i < count + rank - int64_t(dims.size()); ++i)
    indexed->toPlace.push_back(i);
  indexed->lead = std::move(*lead);
  return indexed;
}

/// The indexed dimensions are brought to the front and looked up together.
static LogicalResult convertIndex(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto indexed = readIndices(node, self->rank());
  if (failed(indexed))
    return failure();
  if (indexed->dims.size() == 1)
    return node.define(gatherTensor(node, *self, indexed->parts[0], indexed->dims[0]));
  auto found =
      gatherAt(node, transposeTensor(node, *self, indexed->toFront), indexed->parts, indexed->lead);
  return failed(found) ? failure() : node.define(transposeTensor(node, *found, indexed->toPlace));
}

static LogicalResult convertCumulativeSum(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  const bool isFloat = isa<FloatType>(self->element());
  auto type = node.type("dtype", isFloat ? self->element() : Type(node.emit.getI64Type()));
  auto dim = node.axisOf("dim", self->rank());
  if (failed(type) || failed(dim))
    return failure();
  auto terms = cast(node, *self, *type);
  return failed(terms) ? failure() : node.define(cumulativeSum(node, *terms, *dim, false, false));
}

static LogicalResult convertOneHot(AtenConverter &node) {
  auto self = node.tensor("self");
  auto classes = node.integer("num_classes", -1);
  if (failed(self) || failed(classes))
    return failure();
  if (*classes < 1)
    return node.error() << "needs the number of classes, else it depends on data";
  return node.define(oneHot(node, *self, self->rank(), *classes, {node.emit.getI64Type(), 0, 1}));
}

static LogicalResult convertTopK(AtenConverter &node) {
  auto self = node.tensor("self");
  auto k = node.integer("k");
  auto largest = node.boolean("largest", true);
  if (failed(self) || failed(k) || failed(largest))
    return failure();
  auto dim = node.axisOf("dim", self->rank(), -1);
  if (failed(dim))
    return failure();
  auto top = topK(node, *self, *k, *dim, *largest);
  if (failed(top) || failed(node.define(1, top->indices)))
    return failure();
  return node.define(top->values);
}

/// All elements of a dimension in order. Equal ones keep theirs.
static LogicalResult convertSort(AtenConverter &node) {
  auto self = node.tensor("self");
  auto descending = node.boolean("descending", false);
  if (failed(self) || failed(descending))
    return failure();
  const std::string op = node.op();
  auto dim = op == "aten.msort" ? node.axis(0, self->rank()) : node.axisOf("dim", self->rank(), -1);
  if (failed(dim))
    return failure();
  auto sorted = topK(node, *self, self->shape()[*dim], *dim, *descending);
  if (failed(sorted))
    return failure();
  if (op == "aten.argsort")
    return node.define(sorted->indices);
  if (op == "aten.sort" && failed(node.define(1, sorted->indices)))
    return failure();
  return node.define(sorted->values);
}

static LogicalResult convertArgExtreme(AtenConverter &node) {
  auto self = node.tensor("self");
  auto keep = node.boolean("keepdim", false);
  if (failed(self) || failed(keep))
    return failure();
  if (!node.has("dim"))
    self = reshapeTensor(node, *self, {product(self->shape())});
  auto dim = node.axisOf("dim", self->rank(), 0);
  if (failed(dim))
    return failure();
  return node.define(argExtreme(node, *self, *dim, {node.op() == "aten.argmax", false, *keep}));
}

void addLookups(AtenTable &table) {
  table["aten.embedding"] = convertEmbedding;
  for (const char *op : {"aten.embedding_bag", "aten._embedding_bag"})
    table[op] = convertEmbeddingBag;
  table["aten.gather"] = convertGather;
  table["aten.index_select"] = convertIndexSelect;
  table["aten.index"] = convertIndex;
  table["aten.cumsum"] = convertCumulativeSum;
  table["aten.one_hot"] = convertOneHot;
  table["aten.topk"] = convertTopK;
  for (const char *op : {"aten.sort", "aten.argsort", "aten.msort"})
    table[op] = convertSort;
  table["aten.argmax"] = convertArgExtreme;
  table["aten.argmin"] = convertArgExtreme;
}

} // namespace dtc::import
