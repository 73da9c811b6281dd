// Operators that address elements by value.
#include "AtenConverter.h"
#include "Indexed.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/GatherAt.h"
#include "dtc/Import/Build/Lookup.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Selection.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertEmbedding(AtenConverter &node) {
  auto weight = node.tensor("weight"), indices = node.tensor("indices");
  auto padding = node.integer("padding_idx", -1);
  if (failed(weight) || failed(indices) || failed(padding))
    return failure();
  if (weight->rank() != 2)
    return node.error() << "needs a table of two dimensions";
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
  table["aten.gather"] = convertGather;
  table["aten.index_select"] = convertIndexSelect;
  table["aten.index"] = convertIndex;
  table["aten.cumsum"] = convertCumulativeSum;
  table["aten.one_hot"] = convertOneHot;
  table["aten.topk"] = convertTopK;
  table["aten.argmax"] = convertArgExtreme;
  table["aten.argmin"] = convertArgExtreme;
}

} // namespace dtc::import
