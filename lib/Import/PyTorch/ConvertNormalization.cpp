// Reductions, distances and normalizations.
#include "AtenConverter.h"

#include "dtc/Import/Build/Contraction.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Norms.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Build/Selection.h"
#include "dtc/Import/Unsupported.h"

#include <limits>

using namespace mlir;

namespace dtc::import {

/// Over the axes in `dim`, in the type that `dtype` says; sums of integers are wide.
static LogicalResult convertReduction(AtenConverter &node) {
  auto self = node.tensor("self");
  auto keep = node.boolean("keepdim", false);
  if (failed(self) || failed(keep))
    return failure();
  const std::string op = node.op();
  Type byDefault = self->element();
  if ((op == "aten.sum" || op == "aten.prod") && !isa<FloatType>(byDefault))
    byDefault = node.emit.getI64Type();
  auto type = node.type("dtype", byDefault);
  auto axes = node.axesOf("dim", self->rank());
  if (failed(type) || failed(axes))
    return failure();
  auto input = cast(node, *self, *type);
  if (failed(input))
    return failure();
  const char *name = op == "aten.sum"    ? "ReduceSum"
                     : op == "aten.mean" ? "ReduceMean"
                     : op == "aten.prod" ? "ReduceProd"
                     : op == "aten.amax" ? "ReduceMax"
                                         : "ReduceMin";
  return node.define(reduceTensor(node, name, *input, *axes, *keep));
}

/// max and min: of all elements, of a dimension with positions, or of two tensors.
static LogicalResult convertMax(AtenConverter &node) {
  if (node.overload() == "other")
    return convertExtreme(node);
  auto self = node.tensor("self");
  auto keep = node.boolean("keepdim", false);
  if (failed(self) || failed(keep))
    return failure();
  auto axes = node.axesOf("dim", self->rank());
  if (failed(axes))
    return failure();
  const bool isMax = node.op() == "aten.max";
  if (node.has("dim")) {
    auto at = argExtreme(node, *self, axes->front(), {isMax, false, *keep});
    if (failed(at) || failed(node.define(1, *at)))
      return failure();
  }
  if (node.has("dim"))
    return node.define(firstExtreme(node, *self, axes->front(), {isMax, false, *keep}));
  return node.define(reduceTensor(node, isMax ? "ReduceMax" : "ReduceMin", *self, *axes, *keep));
}

static LogicalResult convertLogSumExp(AtenConverter &node) {
  auto self = node.tensor("self");
  auto keep = node.boolean("keepdim", false);
  if (failed(self) || failed(keep))
    return failure();
  auto axes = node.axesOf("dim", self->rank());
  return failed(axes) ? failure()
                      : node.define(reduceTensor(node, "ReduceLogSumExp", *self, *axes, *keep));
}

/// A root whose gradient at 0 is 0.
static FailureOr<Tensor> safeRoot(AtenConverter &node, const Tensor &squares) {
  const Shape shape = squares.shape();
  const Tensor zero = HostTensor::splat(squares.element(), shape, 0),
               one = HostTensor::splat(squares.element(), shape, 1);
  auto isZero = binary(node, "Equal", squares, zero);
  auto safe = failed(isZero) ? isZero : select(node, *isZero, one, squares);
  auto root = failed(safe) ? safe : unary(node, "Sqrt", *safe);
  return failed(root) ? root : select(node, *isZero, zero, *root);
}

FailureOr<Tensor> lengths(AtenConverter &node, const Tensor &x, double order,
                          ArrayRef<int64_t> axes, bool keep) {
  if ((order != 1 && order != 2) || !isa<FloatType>(x.element()))
    return LogicalResult(unsupported(node.error())
                         << "is supported of order 1 and 2 and of floats only");
  if (order == 1)
    return reduceTensor(node, "ReduceL1", x, axes, keep);
  auto squares = reduceTensor(node, "ReduceSumSquare", x, axes, keep);
  return failed(squares) ? squares : safeRoot(node, *squares);
}

static LogicalResult convertVectorNorm(AtenConverter &node) {
  auto self = node.tensor("self");
  auto order = node.number(node.op() == "aten.norm" ? "p" : "ord", 2);
  auto keep = node.boolean("keepdim", false);
  if (failed(self) || failed(order) || failed(keep))
    return failure();
  auto axes = node.axesOf("dim", self->rank());
  return failed(axes) ? failure() : node.define(lengths(node, *self, *order, *axes, *keep));
}

/// |a - b| of each row of a with each of b, as the root of a.a - 2 a.b + b.b.
static FailureOr<Tensor> distancesByProducts(AtenConverter &node, const Tensor &a,
                                             const Tensor &b) {
  auto turned = [&](const Tensor &x) {
    Shape perm = llvm::to_vector(llvm::seq<int64_t>(x.rank()));
    std::swap(perm[x.rank() - 1], perm[x.rank() - 2]);
    return transposeTensor(node, x, perm);
  };
  auto ofA = reduceTensor(node, "ReduceSumSquare", a, {a.rank() - 1}, true);
  auto ofB = reduceTensor(node, "ReduceSumSquare", b, {b.rank() - 1}, true);
  auto products = matmulTensors(node, a, turned(b));
  if (failed(ofA) || failed(ofB) || failed(products))
    return failure();
  auto number = [&](double value) { return Tensor(HostTensor::splat(a.element(), {}, value)); };
  auto both = binary(node, "Add", *ofA, turned(*ofB));
  auto twice = binary(node, "Mul", *products, number(2));
  auto squares = failed(both) || failed(twice) ? FailureOr<Tensor>(failure())
                                               : binary(node, "Sub", *both, *twice);
  squares = failed(squares) ? squares : binary(node, "Max", *squares, number(0));
  return failed(squares) ? squares : safeRoot(node, *squares);
}

/// x1 [..., p, m], x2 [..., r, m] -> [..., p, r]. PyTorch takes products where there are many rows.
static LogicalResult convertDistances(AtenConverter &node) {
  auto a = node.tensor("x1"), b = node.tensor("x2");
  auto order = node.number("p", 2);
  auto mode = node.integer("compute_mode", 0);
  if (failed(a) || failed(b) || failed(order) || failed(mode))
    return failure();
  Shape x = a->shape(), y = b->shape();
  if (x.size() < 2 || y.size() < 2 || x.back() != y.back() || a->element() != b->element())
    return node.error() << "operands of shapes or types that do not fit: " << listed(x) << " and "
                        << listed(y);
  constexpr int64_t kMostByDifferences = 25;
  const bool many = std::max(x[x.size() - 2], y[y.size() - 2]) > kMostByDifferences;
  if (*order == 2 && (*mode == 1 || (*mode == 0 && many)))
    return node.define(distancesByProducts(node, *a, *b));
  x.insert(x.end() - 1, 1);
  y.insert(y.end() - 2, 1);
  auto shape = broadcastShapes({x, y});
  if (failed(shape))
    return node.error() << "operands of shapes that do not fit: " << listed(a->shape()) << " and "
                        << listed(b->shape());
  if (failed(node.checkShape(*shape)))
    return failure();
  auto apart = binary(node, "Sub", reshapeTensor(node, *a, x), reshapeTensor(node, *b, y));
  return failed(apart) ? failure()
                       : node.define(lengths(node, *apart, *order, {apart->rank() - 1}, false));
}

/// any and all of truths.
static LogicalResult convertAny(AtenConverter &node) {
  auto self = node.tensor("self");
  auto keep = node.boolean("keepdim", false);
  if (failed(self) || failed(keep))
    return failure();
  auto axes = node.axesOf("dim", self->rank());
  auto numbers = cast(node, *self, node.emit.getI1Type());
  if (succeeded(numbers))
    numbers = cast(node, *numbers, node.emit.getI64Type());
  if (failed(axes) || failed(numbers))
    return failure();
  auto reduced = reduceTensor(node, node.op() == "aten.any" ? "ReduceMax" : "ReduceMin", *numbers,
                              *axes, *keep);
  return failed(reduced) ? failure() : node.define(cast(node, *reduced, node.emit.getI1Type()));
}

/// The mean of squared distances from the mean; `correction` is taken off the count.
static LogicalResult convertVariance(AtenConverter &node) {
  auto self = node.tensor("self");
  auto keep = node.boolean("keepdim", false);
  auto correction = node.number("correction", 1);
  auto unbiased = node.boolean("unbiased", true);
  if (failed(self) || failed(keep) || failed(correction) || failed(unbiased))
    return failure();
  auto axes = node.axesOf("dim", self->rank());
  if (failed(axes))
    return failure();
  double count = *unbiased ? -*correction : 0;
  int64_t elements = 1;
  for (int64_t axis : *axes)
    elements *= self->shape()[axis];
  count += double(elements);
  if (!(count > 0) || !isa<FloatType>(self->element()))
    return node.error() << "needs floats, and more of them than its correction";
  auto mean = reduceTensor(node, "ReduceMean", *self, *axes, true);
  auto distance = failed(mean) ? mean : binary(node, "Sub", *self, *mean);
  auto square = failed(distance) ? distance : binary(node, "Mul", *distance, *distance);
  auto sum = failed(square) ? square : reduceTensor(node, "ReduceSum", *square, *axes, *keep);
  if (failed(sum))
    return failure();
  Host divisor = HostTensor::splat(self->element(), {}, count);
  auto variance = binary(node, "Div", *sum, Tensor(divisor));
  if (node.op() == "aten.std" && succeeded(variance))
    variance = safeRoot(node, *variance);
  return node.define(variance);
}

static LogicalResult convertSoftmax(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto dim = node.axisOf("dim", self->rank());
  auto type = node.type("dtype", self->element());
  if (failed(dim) || failed(type))
    return failure();
  auto input = cast(node, *self, *type);
  if (failed(input))
    return failure();
  if (!isa<FloatType>(input->element()))
    return unsupported(node.error()) << "is not supported on " << input->element();
  Value x = node.value(*input);
  const bool isLog = StringRef(node.op()).contains("log_softmax");
  return node.define(isLog ? logSoftmax(node.emit, x, *dim) : softmax(node.emit, x, *dim));
}

void addReductions(AtenTable &table) {
  for (const char *op : {"aten.sum", "aten.mean", "aten.prod", "aten.amax", "aten.amin"})
    table[op] = convertReduction;
  for (const char *op : {"aten.max", "aten.min"})
    table[op] = convertMax;
  table["aten.logsumexp"] = convertLogSumExp;
  for (const char *op : {"aten.linalg_vector_norm", "aten.norm"})
    table[op] = convertVectorNorm;
  for (const char *op : {"aten.cdist", "aten._cdist_forward"})
    table[op] = convertDistances;
  for (const char *op : {"aten.any", "aten.all"})
    table[op] = convertAny;
  for (const char *op : {"aten.var", "aten.std"})
    table[op] = convertVariance;
  for (const char *op : {"aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax"})
    table[op] = convertSoftmax;
}

static const Tensor *pointer(const std::optional<Tensor> &tensor) {
  return tensor ? &*tensor : nullptr;
}

/// The first of the dimensions that normalized_shape covers.
static FailureOr<int64_t> normalizedFrom(AtenConverter &node, const Tensor &input) {
  auto sizes = node.integers("normalized_shape");
  if (failed(sizes))
    return failure();
  const Shape shape = input.shape();
  if (sizes->empty() || sizes->size() > shape.size() ||
      ArrayRef(shape).take_back(sizes->size()) != ArrayRef(*sizes))
    return LogicalResult(node.error()
                         << "normalizes dimensions that its input lacks: " << listed(*sizes));
  return int64_t(shape.size() - sizes->size());
}

static LogicalResult convertLayerNorm(AtenConverter &node) {
  auto input = node.tensor("input");
  auto weight = node.optionalTensor("weight"), bias = node.optionalTensor("bias");
  auto epsilon = node.number("eps", 1e-5);
  if (failed(input) || failed(weight) || failed(bias) || failed(epsilon))
    return failure();
  auto axis = normalizedFrom(node, *input);
  if (failed(axis))
    return failure();
  auto norm = layerNorm(node, *input, *axis, pointer(*weight), pointer(*bias), *epsilon);
  if (failed(norm))
    return failure();
  if (node.op() == "aten.native_layer_norm" &&
      (failed(node.define(1, norm->mean)) || failed(node.define(2, norm->rstd))))
    return failure();
  return node.define(norm->result);
}

static LogicalResult convertRmsNorm(AtenConverter &node) {
  auto input = node.tensor("input");
  auto weight = node.optionalTensor("weight");
  if (failed(input) || failed(weight))
    return failure();
  auto epsilon =
      node.number("eps", input->element().isF64() ? std::numeric_limits<double>::epsilon()
                                                  : std::numeric_limits<float>::epsilon());
  auto axis = normalizedFrom(node, *input);
  if (failed(axis) || failed(epsilon))
    return failure();
  return node.define(rmsNorm(node, *input, *axis, pointer(*weight), *epsilon));
}

static LogicalResult convertGroupNorm(AtenConverter &node) {
  auto input = node.tensor("input");
  auto weight = node.optionalTensor("weight"), bias = node.optionalTensor("bias");
  auto epsilon = node.number("eps", 1e-5);
  auto groups = node.integer("num_groups");
  if (failed(input) || failed(weight) || failed(bias) || failed(epsilon) || failed(groups))
    return failure();
  return node.define(groupNorm(node, *input, *groups, pointer(*weight), pointer(*bias), *epsilon));
}

/// Each channel of a sample by itself, or by running statistics.
static LogicalResult convertInstanceNorm(AtenConverter &node) {
  auto input = node.tensor("input");
  auto weight = node.optionalTensor("weight"), bias = node.optionalTensor("bias");
  auto mean = node.optionalTensor("running_mean"), variance = node.optionalTensor("running_var");
  auto bySample = node.boolean("use_input_stats", true);
  auto epsilon = node.number("eps", 1e-5);
  if (failed(input) || failed(weight) || failed(bias) || failed(mean) || failed(variance) ||
      failed(bySample) || failed(epsilon))
    return failure();
  const Shape shape = input->shape();
  if (shape.size() < 3)
    return node.error() << "is supported on batches only";
  if (*bySample && *mean)
    return unsupported(node.error()) << "in training mode changes its running statistics, which "
                                        "is not supported; use track_running_stats=False";
  if (*bySample)
    return node.define(
        groupNorm(node, *input, shape[1], pointer(*weight), pointer(*bias), *epsilon));
  if (!*mean || !*variance)
    return node.error() << "needs running statistics";
  return node.define(batchNorm(node, *input, pointer(*weight), pointer(*bias),
                               {pointer(*mean), pointer(*variance), *epsilon}));
}

/// In training mode, as makeFunctional leaves it.
static LogicalResult convertTrainedBatchNorm(AtenConverter &node) {
  auto input = node.tensor("input");
  auto weight = node.optionalTensor("weight"), bias = node.optionalTensor("bias");
  auto mean = node.optionalTensor("running_mean"), variance = node.optionalTensor("running_var");
  auto momentum = node.number("momentum", 0.1), epsilon = node.number("eps", 1e-5);
  if (failed(input) || failed(weight) || failed(bias) || failed(mean) || failed(variance) ||
      failed(momentum) || failed(epsilon))
    return failure();
  auto norm = trainBatchNorm(node, *input, pointer(*weight), pointer(*bias),
                             {pointer(*mean), pointer(*variance), *epsilon}, *momentum);
  if (failed(norm))
    return failure();
  if ((norm->mean && failed(node.define(3, norm->mean))) ||
      (norm->variance && failed(node.define(4, norm->variance))))
    return failure();
  return node.define(norm->result);
}

static LogicalResult convertBatchNorm(AtenConverter &node) {
  auto input = node.tensor("input");
  auto weight = node.optionalTensor("weight"), bias = node.optionalTensor("bias");
  auto epsilon = node.number("eps", 1e-5);
  if (failed(input) || failed(weight) || failed(bias) || failed(epsilon))
    return failure();
  auto mean = node.tensor("running_mean"), variance = node.tensor("running_var");
  if (failed(mean) || failed(variance))
    return failure();
  return node.define(
      batchNorm(node, *input, pointer(*weight), pointer(*bias), {&*mean, &*variance, *epsilon}));
}

/// v * g / |v|, where the norm is taken over all dimensions but one.
static LogicalResult convertWeightNorm(AtenConverter &node) {
  auto v = node.tensor("v"), g = node.tensor("g");
  if (failed(v) || failed(g))
    return failure();
  auto kept = node.axisOf("dim", v->rank(), 0);
  if (failed(kept))
    return failure();
  Shape axes = llvm::to_vector(llvm::seq<int64_t>(v->rank()));
  axes.erase(axes.begin() + *kept);
  auto square = binary(node, "Mul", *v, *v);
  auto sum = failed(square) ? square : reduceTensor(node, "ReduceSum", *square, axes, true);
  auto norm = failed(sum) ? sum : unary(node, "Sqrt", *sum);
  auto scale = failed(norm) ? norm : binary(node, "Div", *g, *norm);
  return failed(scale) ? failure() : node.define(binary(node, "Mul", *v, *scale));
}

void addNormalizations(AtenTable &table) {
  table["aten._weight_norm"] = convertWeightNorm;
  table["aten.layer_norm"] = convertLayerNorm;
  table["aten.native_layer_norm"] = convertLayerNorm;
  table["aten.rms_norm"] = convertRmsNorm;
  table["aten.group_norm"] = convertGroupNorm;
  table["aten.instance_norm"] = convertInstanceNorm;
  for (const char *op : {"aten.batch_norm", "aten._native_batch_norm_legit_no_training"})
    table[op] = convertBatchNorm;
  table["aten._native_batch_norm_legit_functional"] = convertTrainedBatchNorm;
}

} // namespace dtc::import
