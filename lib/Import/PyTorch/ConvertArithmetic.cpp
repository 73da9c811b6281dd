// Operators that act element by element.
#include "AtenConverter.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;

namespace dtc::import {

using Operand = AtenConverter::Operand;

/// Both operands in one element type, and the operator of ONNX on them.
static FailureOr<Tensor> apply(AtenConverter &node, StringRef op, const Operand &a,
                               const Operand &b, Type type) {
  auto left = cast(node, a.tensor, type), right = cast(node, b.tensor, type);
  if (failed(left) || failed(right))
    return failure();
  return binary(node, op, *left, *right);
}

/// The operands self and other, in that order.
static FailureOr<std::pair<Operand, Operand>> operands(AtenConverter &node) {
  auto self = node.operand("self"), other = node.operand("other");
  if (failed(self) || failed(other))
    return failure();
  return std::pair(*self, *other);
}

Type floatFor(Type type) {
  return isa<FloatType>(type) ? type : Type(Float32Type::get(type.getContext()));
}

/// self + alpha * other, and the same with minus.
static LogicalResult convertSum(AtenConverter &node) {
  auto both = operands(node);
  auto alpha = node.number("alpha", 1);
  if (failed(both) || failed(alpha))
    return failure();
  auto [self, other] = *both;
  const bool reversed = node.op() == "aten.rsub";
  if (reversed)
    std::swap(self, other);
  const Type type = promoted(self, other);
  if (*alpha != 1) {
    Operand &scaled = reversed ? self : other;
    auto term =
        apply(node, "Mul", scaled, {Tensor(HostTensor::splat(type, {}, *alpha)), true}, type);
    if (failed(term))
      return failure();
    scaled.tensor = *term;
  }
  return node.define(apply(node, node.op() == "aten.add" ? "Add" : "Sub", self, other, type));
}

static LogicalResult convertProduct(AtenConverter &node) {
  auto both = operands(node);
  if (failed(both))
    return failure();
  return node.define(
      apply(node, "Mul", both->first, both->second, promoted(both->first, both->second)));
}

static LogicalResult convertQuotient(AtenConverter &node) {
  auto both = operands(node);
  auto mode = node.text("rounding_mode", node.op() == "aten.floor_divide" ? "floor" : "");
  if (failed(both) || failed(mode))
    return failure();
  const Type type = promoted(both->first, both->second);
  if (mode->empty())
    return node.define(apply(node, "Div", both->first, both->second, floatFor(type)));
  auto quotient = apply(node, "Div", both->first, both->second, type);
  if (failed(quotient))
    return failure();
  if (isa<FloatType>(type) && *mode == "floor")
    return node.define(unary(node, "Floor", *quotient));
  // Quotients of integers are cut towards zero: the floor of what isn't negative.
  const Host a = both->first.tensor.host, b = both->second.tensor.host;
  auto natural = [](const Host &host) {
    return host && llvm::all_of(host->ints, [](int64_t each) { return each >= 0; });
  };
  if (isa<FloatType>(type) || (*mode == "floor" && !(natural(a) && natural(b))))
    return unsupported(node.error())
           << "rounds in a way that is not supported: " << *mode << " of " << type;
  return node.define(*quotient);
}

static LogicalResult convertPower(AtenConverter &node) {
  auto self = node.operand("self"), exponent = node.operand("exponent");
  if (failed(self) || failed(exponent))
    return failure();
  const Type type = promoted(*self, *exponent);
  return node.define(apply(node, "Pow", *self, *exponent, type));
}

static LogicalResult convertSquare(AtenConverter &node) {
  auto self = node.tensor("self");
  return failed(self) ? failure() : node.define(binary(node, "Mul", *self, *self));
}

/// The sign is that of the divisor, or in fmod that of the dividend.
static LogicalResult convertRemainder(AtenConverter &node) {
  auto both = operands(node);
  if (failed(both))
    return failure();
  const Type type = promoted(both->first, both->second);
  return node.define(
      apply(node, node.op() == "aten.fmod" ? "Remainder" : "Mod", both->first, both->second, type));
}

/// maximum and minimum; max.other and min.other are the same.
LogicalResult convertExtreme(AtenConverter &node) {
  auto both = operands(node);
  if (failed(both))
    return failure();
  const bool isMax = StringRef(node.op()).starts_with("aten.max");
  return node.define(apply(node, isMax ? "Max" : "Min", both->first, both->second,
                           promoted(both->first, both->second)));
}

/// Truths, or the bits of integers.
static LogicalResult convertLogic(AtenConverter &node) {
  auto both = operands(node);
  if (failed(both))
    return failure();
  const std::string op = node.op();
  const StringRef name = op;
  const bool isLogical = name.contains("logical");
  const Type type = isLogical ? Type(node.emit.getI1Type()) : promoted(both->first, both->second);
  if (isa<FloatType>(type))
    return unsupported(node.error()) << "is not supported on " << type;
  const char *onnx = name.contains("xor") ? "Xor" : name.contains("and") ? "And" : "Or";
  return node.define(apply(node, onnx, both->first, both->second, type));
}

static LogicalResult convertNot(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  if (node.op() == "aten.logical_not")
    self = cast(node, *self, node.emit.getI1Type());
  return failed(self) ? failure() : node.define(unary(node, "Not", *self));
}

/// self + value * tensor1 * tensor2, and with a quotient.
static LogicalResult convertAddedProduct(AtenConverter &node) {
  auto self = node.tensor("self"), first = node.tensor("tensor1"), second = node.tensor("tensor2");
  auto factor = node.number("value", 1);
  if (failed(self) || failed(first) || failed(second) || failed(factor))
    return failure();
  auto term = binary(node, node.op() == "aten.addcmul" ? "Mul" : "Div", *first, *second);
  if (failed(term) || !isa<FloatType>(term->element()))
    return failed(term) ? failure() : node.error() << "is supported for floats only";
  if (*factor != 1)
    term = binary(node, "Mul", *term, Tensor(HostTensor::splat(term->element(), {}, *factor)));
  return failed(term) ? failure() : node.define(binary(node, "Add", *self, *term));
}

/// self + weight * (end - self).
static LogicalResult convertLerp(AtenConverter &node) {
  auto self = node.tensor("self"), end = node.tensor("end");
  auto weight = node.operand("weight");
  if (failed(self) || failed(end) || failed(weight))
    return failure();
  auto share = cast(node, weight->tensor, self->element());
  auto distance = failed(share) ? share : binary(node, "Sub", *end, *self);
  auto term = failed(distance) ? distance : binary(node, "Mul", *share, *distance);
  return failed(term) ? failure() : node.define(binary(node, "Add", *self, *term));
}

void addArithmetic(AtenTable &table) {
  for (const char *op : {"aten.add", "aten.sub", "aten.rsub"})
    table[op] = convertSum;
  table["aten.mul"] = convertProduct;
  for (const char *op : {"aten.div", "aten.floor_divide"})
    table[op] = convertQuotient;
  table["aten.pow"] = convertPower;
  table["aten.square"] = convertSquare;
  table["aten.remainder"] = table["aten.fmod"] = convertRemainder;
  table["aten.addcmul"] = table["aten.addcdiv"] = convertAddedProduct;
  table["aten.lerp"] = convertLerp;
  for (const char *op : {"aten.maximum", "aten.minimum"})
    table[op] = convertExtreme;
  for (const char *op :
       {"aten.__and__", "aten.__or__", "aten.__xor__", "aten.logical_and", "aten.logical_or",
        "aten.logical_xor", "aten.bitwise_and", "aten.bitwise_or", "aten.bitwise_xor"})
    table[op] = convertLogic;
  for (const char *op : {"aten.logical_not", "aten.bitwise_not"})
    table[op] = convertNot;
}

static LogicalResult convertComparison(AtenConverter &node) {
  auto both = operands(node);
  if (failed(both))
    return failure();
  const std::string name = node.op();
  StringRef op = llvm::StringSwitch<StringRef>(name)
                     .Cases({"aten.eq", "aten.ne"}, "Equal")
                     .Case("aten.lt", "Less")
                     .Case("aten.le", "LessOrEqual")
                     .Case("aten.gt", "Greater")
                     .Default("GreaterOrEqual");
  auto truth = apply(node, op, both->first, both->second, promoted(both->first, both->second));
  if (name == "aten.ne" && succeeded(truth))
    truth = unary(node, "Not", *truth);
  return node.define(truth);
}

static LogicalResult convertWhere(AtenConverter &node) {
  auto condition = node.tensor("condition");
  auto self = node.operand("self"), other = node.operand("other");
  if (failed(condition) || failed(self) || failed(other))
    return failure();
  const Type type = promoted(*self, *other);
  auto left = cast(node, self->tensor, type), right = cast(node, other->tensor, type);
  if (failed(left) || failed(right))
    return failure();
  return node.define(select(node, *condition, *left, *right));
}

static LogicalResult convertMaskedFill(AtenConverter &node) {
  auto self = node.tensor("self"), mask = node.tensor("mask");
  auto filling = node.operand("value");
  if (failed(self) || failed(mask) || failed(filling))
    return failure();
  auto value = cast(node, filling->tensor, self->element());
  return failed(value) ? failure() : node.define(select(node, *mask, *value, *self));
}

static LogicalResult convertClamp(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  std::optional<Tensor> bounds[2];
  for (int i : {0, 1}) {
    const char *name = i == 0 ? "min" : "max";
    if (!node.has(name))
      continue;
    auto bound = node.operand(name);
    if (failed(bound))
      return failure();
    auto value = cast(node, bound->tensor, self->element());
    if (failed(value))
      return failure();
    bounds[i] = *value;
  }
  if (node.overload() != "Tensor")
    return node.define(
        clamp(node, *self, bounds[0] ? &*bounds[0] : nullptr, bounds[1] ? &*bounds[1] : nullptr));
  // Bounds that are tensors share the gradient where they are met.
  FailureOr<Tensor> result = *self;
  for (int i : {0, 1})
    if (bounds[i] && succeeded(result))
      result = binary(node, i == 0 ? "Max" : "Min", *result, *bounds[i]);
  return node.define(result);
}

static LogicalResult convertIsInfinite(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  if (!isa<FloatType>(self->element()))
    return node.error() << "is supported on floats only";
  auto size = unary(node, "Abs", *self);
  if (failed(size))
    return failure();
  Host infinity = HostTensor::splat(self->element(), {}, std::numeric_limits<double>::infinity());
  return node.define(binary(node, "Equal", *size, Tensor(infinity)));
}

void addComparisons(AtenTable &table) {
  for (const char *op : {"aten.eq", "aten.ne", "aten.lt", "aten.le", "aten.gt", "aten.ge"})
    table[op] = convertComparison;
  table["aten.where"] = convertWhere;
  table["aten.masked_fill"] = convertMaskedFill;
  for (const char *op : {"aten.clamp", "aten.clamp_min", "aten.clamp_max"})
    table[op] = convertClamp;
  table["aten.isinf"] = convertIsInfinite;
}

} // namespace dtc::import
