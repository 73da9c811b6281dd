// Operators that address elements by value.
#include "AtenConverter.h"

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

namespace {
/// self[:, i, j]: the dimensions that are indexed, and by what.
struct Indexed {
  SmallVector<Tensor> parts;
  Shape dims;
};
} // namespace

static FailureOr<Indexed> readIndices(AtenConverter &node, int64_t rank) {
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
    indexed.parts.push_back(part);
  }
  if (indexed.parts.empty())
    return LogicalResult(node.error() << "has no indices");
  return indexed;
}

/// The indexed dimensions are brought to the front and looked up together. Where they were
/// neighbours, what takes their place goes back to where the first of them was.
static LogicalResult convertIndex(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto indexed = readIndices(node, self->rank());
  if (failed(indexed))
    return failure();
  const Shape &dims = indexed->dims;
  if (dims.size() == 1)
    return node.define(gatherTensor(node, *self, indexed->parts[0], dims[0]));
  SmallVector<Shape> shapes;
  for (const Tensor &part : indexed->parts)
    shapes.push_back(part.shape());
  auto lead = broadcastShapes(shapes);
  if (failed(lead) || failed(node.checkShape(*lead)))
    return node.error() << "indices of shapes that do not broadcast";
  for (Tensor &part : indexed->parts)
    part = expandTensor(node, part, *lead);
  Shape perm = dims;
  for (int64_t i = 0; i < self->rank(); ++i)
    if (!llvm::is_contained(dims, i))
      perm.push_back(i);
  auto found = gatherAt(node, transposeTensor(node, *self, perm), indexed->parts, *lead);
  if (failed(found))
    return failure();
  const bool together = dims.back() - dims.front() + 1 == int64_t(dims.size());
  if (!together || dims.front() == 0)
    return node.define(*found);
  const int64_t before = dims.front(), count = lead->size();
  Shape back;
  for (int64_t i = 0; i < before; ++i)
    back.push_back(count + i);
  for (int64_t i = 0; i < count; ++i)
    back.push_back(i);
  for (int64_t i = count + before; i < found->rank(); ++i)
    back.push_back(i);
  return node.define(transposeTensor(node, *found, back));
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
