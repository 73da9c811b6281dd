// Operators that make tensors out of sizes and numbers, and numbers that are computed from sizes.
#include "AtenConverter.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/HostElementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Sequences.h"

using namespace mlir;

namespace dtc::import {

/// What every element of the new tensor is.
static FailureOr<AtenConverter::Operand> filling(AtenConverter &node) {
  const std::string op = node.op();
  for (const char *name : {"fill_value", "s"})
    if (node.has(name))
      return node.operand(name);
  const bool ones = StringRef(op).contains("ones");
  return AtenConverter::Operand{Tensor(HostTensor::splat(node.emit.getI64Type(), {}, ones ? 1 : 0)),
                                true};
}

/// A number's own type where full() gives none; zeros() and ones() have PyTorch's default type.
static Type defaultType(AtenConverter &node, const AtenConverter::Operand &value) {
  const bool takesType = node.has("fill_value") && !isa<FloatType>(value.tensor.element());
  return takesType ? value.tensor.element() : Type(node.emit.getF32Type());
}

/// full, zeros, ones, those like a tensor, and new ones of a tensor's type. What is empty in
/// PyTorch holds anything, and zeros here.
static LogicalResult convertFull(AtenConverter &node) {
  auto value = filling(node);
  if (failed(value))
    return failure();
  Type byDefault = defaultType(node, *value);
  Shape shape;
  if (node.has("self")) {
    auto self = node.tensor("self");
    if (failed(self))
      return failure();
    byDefault = self->element();
    shape = self->shape();
  }
  if (node.has("size")) {
    auto sizes = node.integers("size");
    if (failed(sizes))
      return failure();
    shape = *sizes;
  }
  auto type = node.type("dtype", byDefault);
  if (failed(type) || failed(node.checkShape(shape)))
    return failure();
  auto scalar = cast(node, value->tensor, *type);
  if (failed(scalar))
    return failure();
  return node.define(expandTensor(node, *scalar, shape));
}

static LogicalResult convertArange(AtenConverter &node) {
  AtenConverter::Operand bounds[3];
  bool whole = true;
  const char *names[] = {"start", "end", "step"};
  for (int i = 0; i < 3; ++i) {
    const char *name = names[i];
    bounds[i] = {Tensor(HostTensor::splat(node.emit.getI64Type(), {}, i == 2 ? 1 : 0)), true};
    if (node.has(name)) {
      auto given = node.operand(name);
      if (failed(given))
        return failure();
      bounds[i] = *given;
    }
    if (!bounds[i].tensor.host || bounds[i].tensor.host->size() != 1)
      return node.error() << "needs bounds known while compiling";
    whole &= !bounds[i].tensor.host->isFloat();
  }
  auto type =
      node.type("dtype", whole ? Type(node.emit.getI64Type()) : Type(node.emit.getF32Type()));
  if (failed(type))
    return failure();
  Host converted[3];
  for (int i = 0; i < 3; ++i)
    converted[i] = evaluateCast(bounds[i].tensor.host, *type);
  return node.define(range(node, *converted[0], *converted[1], *converted[2]));
}

static LogicalResult convertTriangle(AtenConverter &node) {
  auto self = node.tensor("self");
  auto diagonal = node.integer("diagonal", 0);
  if (failed(self) || failed(diagonal))
    return failure();
  return node.define(triangle(node, *self, node.op() == "aten.triu", *diagonal));
}

/// Ones where row and column are equal.
static LogicalResult convertEye(AtenConverter &node) {
  auto rows = node.integer("n");
  if (failed(rows))
    return failure();
  const int64_t size = *rows;
  auto columns = node.integer("m", size);
  auto type = node.type("dtype", node.emit.getF32Type());
  if (failed(columns) || failed(type) || failed(node.checkShape({*rows, *columns})))
    return failure();
  Tensor ones = HostTensor::splat(*type, {*rows, *columns}, 1);
  auto below = triangle(node, ones, /*upper=*/false, 0);
  return failed(below) ? failure() : node.define(triangle(node, *below, /*upper=*/true, 0));
}

/// Each vector along a dimension of its own, repeated along those of the others.
static LogicalResult convertMeshgrid(AtenConverter &node) {
  auto tensors = node.tensors("tensors");
  auto indexing = node.text("indexing", "ij");
  if (failed(tensors) || failed(indexing))
    return failure();
  const bool swaps = *indexing == "xy" && tensors->size() > 1;
  if ((*indexing != "ij" && *indexing != "xy") || tensors->size() > node.node.results.size())
    return node.error() << "has an unknown indexing: " << *indexing;
  Shape shape;
  for (const Tensor &tensor : *tensors) {
    if (tensor.rank() > 1)
      return node.error() << "needs vectors, got " << listed(tensor.shape());
    shape.push_back(product(tensor.shape()));
  }
  if (swaps)
    std::swap(shape[0], shape[1]);
  if (failed(node.checkShape(shape)))
    return failure();
  for (auto [i, tensor] : llvm::enumerate(*tensors)) {
    const size_t place = swaps && i < 2 ? 1 - i : i;
    Shape along(shape.size(), 1);
    along[place] = shape[place];
    if (failed(node.define(i, expandTensor(node, reshapeTensor(node, tensor, along), shape))))
      return failure();
  }
  return success();
}

void addCreation(AtenTable &table) {
  for (const char *op :
       {"aten.full", "aten.full_like", "aten.zeros", "aten.zeros_like", "aten.ones",
        "aten.ones_like", "aten.new_full", "aten.new_zeros", "aten.new_ones", "aten.scalar_tensor",
        "aten.zero", "aten.empty", "aten.empty_like", "aten.new_empty"})
    table[op] = convertFull;
  table["aten.eye"] = convertEye;
  table["aten.meshgrid"] = convertMeshgrid;
  table["aten.arange"] = convertArange;
  for (const char *op : {"aten.tril", "aten.triu"})
    table[op] = convertTriangle;
}

static LogicalResult defineNumber(AtenConverter &node, int64_t number) {
  return node.define(Tensor(HostTensor::ofInts(node.emit.getI64Type(), {}, {number})));
}

static LogicalResult convertSize(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  if (node.op() == "aten.sym_numel" || node.op() == "aten.numel")
    return defineNumber(node, product(self->shape()));
  auto dim = node.axisOf("dim", self->rank());
  return failed(dim) ? failure() : defineNumber(node, self->shape()[*dim]);
}

/// Arithmetic on sizes. Python's // rounds down.
static LogicalResult convertNumbers(AtenConverter &node) {
  auto a = node.integer("a"), b = node.integer("b");
  if (failed(a) || failed(b))
    return failure();
  int64_t result = 0;
  const std::string op = node.op();
  bool overflows = false;
  if (op == "_operator.add")
    overflows = __builtin_add_overflow(*a, *b, &result);
  else if (op == "_operator.sub")
    overflows = __builtin_sub_overflow(*a, *b, &result);
  else if (op == "_operator.mul")
    overflows = __builtin_mul_overflow(*a, *b, &result);
  else if (*b <= 0 || *a < 0)
    return node.error() << "divides numbers that are not positive: " << *a << " and " << *b;
  else
    result = op == "_operator.mod" ? *a % *b : *a / *b;
  if (overflows)
    return node.error() << "computes a size that is too large";
  return defineNumber(node, result);
}

void addNumbers(AtenTable &table) {
  for (const char *op : {"aten.sym_size", "aten.size", "aten.sym_numel", "aten.numel"})
    table[op] = convertSize;
  for (const char *op :
       {"_operator.add", "_operator.sub", "_operator.mul", "_operator.floordiv", "_operator.mod"})
    table[op] = convertNumbers;
}

} // namespace dtc::import
