// Operators that write elements at positions.
#include "AtenConverter.h"
#include "Indexed.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Scatter.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace dtc::import {

static Tensor splatOf(Type element, const Shape &shape, double value) {
  return HostTensor::splat(element, shape, value);
}

/// A tensor or a number in the type of `self`, as large as what is written.
static FailureOr<Tensor> writtenOf(AtenConverter &node, StringRef name, const Tensor &self,
                                   const Shape &shape) {
  auto given = node.operand(name);
  if (failed(given))
    return failure();
  auto values = cast(node, given->tensor, self.element());
  if (failed(values))
    return failure();
  auto common = broadcastShapes({values->shape(), shape});
  if (failed(common) || *common != shape)
    return LogicalResult(node.error()
                         << "cannot write " << listed(values->shape()) << " to " << listed(shape));
  return expandTensor(node, *values, shape);
}

namespace {
/// What scatter, scatter_add and scatter_reduce have in common.
struct Scattered {
  Tensor self, index, source;
  int64_t dim;

  FailureOr<Tensor> write(AtenConverter &node, const Tensor &to, const Tensor &from,
                          Write how) const {
    return scatterElements(node, to, index, from, dim, how);
  }
};

/// Where an op writes: at `index` along a dimension.
struct Places {
  Tensor self, index;
  int64_t dim;
};
} // namespace

static FailureOr<Places> placesOf(AtenConverter &node) {
  auto self = node.tensor("self"), index = node.tensor("index");
  if (failed(self) || failed(index))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  if (failed(dim))
    return failure();
  return Places{*self, *index, *dim};
}

/// Of a source, which may be larger, the first elements are written.
static FailureOr<Scattered> scatteredOf(AtenConverter &node) {
  auto places = placesOf(node);
  if (failed(places))
    return failure();
  auto [self, index, dim] = *places;
  const Shape wanted = index.shape();
  if (!node.has("src")) {
    auto value = writtenOf(node, "value", self, wanted);
    return failed(value) ? FailureOr<Scattered>(failure())
                         : FailureOr<Scattered>(Scattered{self, index, *value, dim});
  }
  auto source = node.tensor("src");
  if (failed(source))
    return failure();
  for (int64_t i = 0; i < source->rank() && source->rank() == int64_t(wanted.size()); ++i)
    if (source->shape()[i] > wanted[i])
      source = sliceTensor(node, *source, i, 0, wanted[i]);
  return Scattered{self, index, *source, dim};
}

static LogicalResult convertScatter(AtenConverter &node) {
  auto scattered = scatteredOf(node);
  auto reduce = node.text("reduce", node.op() == "aten.scatter_add" ? "add" : "");
  if (failed(scattered) || failed(reduce))
    return failure();
  if (!reduce->empty() && *reduce != "add" && *reduce != "multiply")
    return node.error() << "has an unknown reduction: " << *reduce;
  const Write how = reduce->empty()    ? Write::Replace
                    : *reduce == "add" ? Write::Add
                                       : Write::Multiply;
  return node.define(scattered->write(node, scattered->self, scattered->source, how));
}

/// Where nothing is written, `self` stays. Elsewhere it takes part, or what leaves a reduction as
/// it is does in its stead.
static LogicalResult convertScatterReduce(AtenConverter &node) {
  auto scattered = scatteredOf(node);
  auto reduce = node.text("reduce", std::nullopt);
  auto takesPart = node.boolean("include_self", true);
  if (failed(scattered) || failed(reduce) || failed(takesPart))
    return failure();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::map<std::string, std::pair<Write, double>> kKinds = {
      {"sum", {Write::Add, 0}},
      {"mean", {Write::Add, 0}},
      {"prod", {Write::Multiply, 1}},
      {"amax", {Write::Max, -kInfinity}},
      {"amin", {Write::Min, kInfinity}}};
  auto kind = kKinds.find(*reduce);
  if (kind == kKinds.end())
    return node.error() << "has an unknown reduction: " << *reduce;
  const auto [how, neutral] = kind->second;
  const bool isMean = *reduce == "mean";
  if (*takesPart && !isMean)
    return node.define(scattered->write(node, scattered->self, scattered->source, how));
  const Shape shape = scattered->self.shape();
  const Type element = scattered->self.element(), f32 = node.emit.getF32Type();
  if (!isa<FloatType>(element))
    return node.error() << "is supported for floats only";
  auto count = scattered->write(node, splatOf(f32, shape, 0),
                                splatOf(f32, scattered->source.shape(), 1), Write::Add);
  auto isWritten = failed(count) ? count : binary(node, "Greater", *count, splatOf(f32, shape, 0));
  auto base = failed(isWritten)
                  ? isWritten
                  : select(node, *isWritten, splatOf(element, shape, neutral), scattered->self);
  auto sum = failed(base) ? base
                          : scattered->write(node, *takesPart ? scattered->self : *base,
                                             scattered->source, how);
  if (failed(sum) || !isMean)
    return node.define(sum);
  auto divisor = *takesPart ? binary(node, "Add", *count, splatOf(f32, shape, 1))
                            : binary(node, "Max", *count, splatOf(f32, shape, 1));
  auto wide = failed(divisor) ? divisor : cast(node, *sum, f32);
  auto mean = failed(wide) ? wide : binary(node, "Div", *wide, *divisor);
  return failed(mean) ? failure() : node.define(cast(node, *mean, element));
}

/// index_add, index_copy and index_fill: slices along a dimension, each at its position.
static LogicalResult convertIndexWrite(AtenConverter &node) {
  auto places = placesOf(node);
  if (failed(places))
    return failure();
  auto [self, index, dim] = *places;
  if (index.rank() > 1 || !isa<IntegerType>(index.element()))
    return node.error() << "needs integer indices of one dimension";
  Shape shape = self.shape(), along(shape.size(), 1);
  shape[dim] = along[dim] = product(index.shape());
  const Tensor at = expandTensor(node, reshapeTensor(node, index, along), shape);
  const bool adds = node.op() == "aten.index_add";
  auto source = writtenOf(node, node.op() == "aten.index_fill" ? "value" : "source", self, shape);
  if (failed(source))
    return failure();
  if (adds && node.has("alpha")) {
    auto alpha = writtenOf(node, "alpha", self, shape);
    source = failed(alpha) ? alpha : binary(node, "Mul", *source, *alpha);
  }
  if (failed(source))
    return failure();
  return node.define(
      scatterElements(node, self, at, *source, dim, adds ? Write::Add : Write::Replace));
}

/// self[mask] = value: a choice for each element. What takes another shape depends on data.
static LogicalResult convertMaskedPut(AtenConverter &node, const Tensor &self, Tensor mask,
                                      bool adds) {
  auto values = node.tensor("values");
  if (failed(values))
    return failure();
  if (product(values->shape()) != 1 || mask.rank() > self.rank() ||
      mask.shape() != Shape(ArrayRef(self.shape()).take_front(mask.rank())))
    return node.error() << "writes where truths say so, whose number depends on data";
  auto value = cast(node, *values, self.element());
  if (failed(value))
    return failure();
  Shape wide = mask.shape();
  wide.resize(self.rank(), 1);
  mask = expandTensor(node, reshapeTensor(node, mask, wide), self.shape());
  auto fresh = FailureOr<Tensor>(
      expandTensor(node, reshapeTensor(node, *value, Shape(self.rank(), 1)), self.shape()));
  if (adds)
    fresh = binary(node, "Add", self, *fresh);
  return failed(fresh) ? failure() : node.define(select(node, mask, *fresh, self));
}

static LogicalResult convertIndexPut(AtenConverter &node) {
  auto self = node.tensor("self");
  auto parts = node.presentTensors("indices");
  auto adds = node.boolean("accumulate", false);
  if (failed(self) || failed(parts) || failed(adds))
    return failure();
  const ArgumentList *list = node.argument("indices")->as<ArgumentList>();
  if (parts->size() == 1 && list->size() == 1 && parts->front().element().isInteger(1))
    return convertMaskedPut(node, *self, parts->front(), *adds);
  auto indexed = readIndices(node, self->rank());
  if (failed(indexed))
    return failure();
  Shape front = indexed->lead, placed;
  for (int64_t dim : ArrayRef(indexed->toFront).drop_front(indexed->dims.size()))
    front.push_back(self->shape()[dim]);
  for (int64_t dim : indexed->toPlace)
    placed.push_back(front[dim]);
  auto values = writtenOf(node, "values", *self, placed);
  if (failed(values))
    return failure();
  const Tensor moved =
      transposeTensor(node, *values, Shape(invertPermutationVector(indexed->toPlace)));
  auto result = scatterSlices(node, transposeTensor(node, *self, indexed->toFront), indexed->parts,
                              moved, *adds ? Write::Add : Write::Replace);
  if (failed(result))
    return failure();
  return node.define(
      transposeTensor(node, *result, Shape(invertPermutationVector(indexed->toFront))));
}

void addScatters(AtenTable &table) {
  table["aten.scatter"] = convertScatter;
  table["aten.scatter_add"] = convertScatter;
  table["aten.scatter_reduce"] = convertScatterReduce;
  for (const char *op : {"aten.index_add", "aten.index_copy", "aten.index_fill"})
    table[op] = convertIndexWrite;
  table["aten.index_put"] = convertIndexPut;
}

} // namespace dtc::import
