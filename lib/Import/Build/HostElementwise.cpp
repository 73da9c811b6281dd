#include "dtc/Import/Build/HostElementwise.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

using FloatUnary = double (*)(double);
using FloatBinary = double (*)(double, double);
using IntBinary = int64_t (*)(int64_t, int64_t);

static FloatUnary floatUnary(StringRef op) {
  return llvm::StringSwitch<FloatUnary>(op)
      .Case("Neg", [](double x) { return -x; })
      .Case("Abs", [](double x) { return std::fabs(x); })
      .Case("Exp", [](double x) { return std::exp(x); })
      .Case("Log", [](double x) { return std::log(x); })
      .Case("Sqrt", [](double x) { return std::sqrt(x); })
      .Case("Reciprocal", [](double x) { return 1.0 / x; })
      .Case("Sin", [](double x) { return std::sin(x); })
      .Case("Cos", [](double x) { return std::cos(x); })
      .Case("Tanh", [](double x) { return std::tanh(x); })
      .Case("Erf", [](double x) { return std::erf(x); })
      .Case("Floor", [](double x) { return std::floor(x); })
      .Case("Ceil", [](double x) { return std::ceil(x); })
      .Case("Round", [](double x) { return std::nearbyint(x); })
      .Case("Relu", [](double x) { return x > 0    ? x
                                          : x == x ? 0.0
                                                   : x; })
      .Case("Sigmoid", [](double x) { return 1.0 / (1.0 + std::exp(-x)); })
      .Case("Sign", [](double x) { return double((x > 0) - (x < 0)); })
      .Default(nullptr);
}

static FloatBinary floatBinary(StringRef op) {
  return llvm::StringSwitch<FloatBinary>(op)
      .Case("Add", [](double a, double b) { return a + b; })
      .Case("Sub", [](double a, double b) { return a - b; })
      .Case("Mul", [](double a, double b) { return a * b; })
      .Case("Div", [](double a, double b) { return a / b; })
      .Case("Pow", [](double a, double b) { return std::pow(a, b); })
      .Case("Max", [](double a, double b) { return a != a || a > b ? a : b; })
      .Case("Min", [](double a, double b) { return a != a || a < b ? a : b; })
      .Default(nullptr);
}

// Arithmetic wraps as two's complement does; unsigned arithmetic keeps it defined.
static int64_t intPower(int64_t base, int64_t exponent) {
  if (exponent < 0) // rounded towards zero, of 1 and -1 alone there is something left
    return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t power = 1, square = uint64_t(base);
  for (uint64_t left = uint64_t(exponent); left; left >>= 1, square *= square)
    if (left & 1)
      power *= square;
  return int64_t(power);
}

static IntBinary intBinary(StringRef op) {
  return llvm::StringSwitch<IntBinary>(op)
      .Case("Add", [](int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); })
      .Case("Sub", [](int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); })
      .Case("Mul", [](int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); })
      .Case("Div", [](int64_t a, int64_t b) { return b == -1 ? int64_t(-uint64_t(a)) : a / b; })
      .Case("Mod",
            [](int64_t a, int64_t b) {
              if (b == -1)
                return int64_t(0);
              const int64_t r = a % b;
              return r != 0 && (r < 0) != (b < 0) ? r + b : r;
            })
      .Case("Remainder", [](int64_t a, int64_t b) { return b == -1 ? 0 : a % b; })
      .Case("Pow", intPower)
      .Case("Max", [](int64_t a, int64_t b) { return std::max(a, b); })
      .Case("Min", [](int64_t a, int64_t b) { return std::min(a, b); })
      .Cases({"And", "BitwiseAnd"}, [](int64_t a, int64_t b) { return a & b; })
      .Cases({"Or", "BitwiseOr"}, [](int64_t a, int64_t b) { return a | b; })
      .Cases({"Xor", "BitwiseXor"}, [](int64_t a, int64_t b) { return a ^ b; })
      .Default(nullptr);
}

/// -1 where `op` is no comparison, else its truth value.
template <typename T> static int compare(StringRef op, T a, T b) {
  if (op == "Equal")
    return a == b;
  if (op == "Less")
    return a < b;
  if (op == "LessOrEqual")
    return a <= b;
  if (op == "Greater")
    return a > b;
  if (op == "GreaterOrEqual")
    return a >= b;
  return -1;
}

Host evaluateUnary(StringRef op, const Host &input) {
  auto result = std::make_shared<HostTensor>(*input);
  if (op == "IsNaN" || op == "Not") {
    result = std::make_shared<HostTensor>(IntegerType::get(input->element.getContext(), 1),
                                          input->shape, input->stored);
    if ((op == "Not") == input->isFloat())
      return {};
    for (size_t i = 0; i < result->ints.size(); ++i)
      result->ints[i] = op == "IsNaN" ? std::isnan(input->floats[i]) : !input->ints[i];
    return result;
  }
  if (input->isFloat()) {
    FloatUnary apply = floatUnary(op);
    if (!apply)
      return {};
    for (double &value : result->floats)
      value = roundTo(input->element, apply(value));
    return result;
  }
  if (op != "Neg" && op != "Abs" && op != "Sign")
    return {};
  for (int64_t &value : result->ints) {
    if (op == "Sign")
      value = (value > 0) - (value < 0);
    else if (op == "Neg" || value < 0)
      value = wrapTo(input->element, int64_t(-uint64_t(value)));
  }
  return result;
}

/// Calls `visit(n, at)` for every index n within `shape`, row-major, with its offsets under each
/// of the strides.
static void forEachOffset(ArrayRef<int64_t> shape, ArrayRef<Shape> strides,
                          llvm::function_ref<void(int64_t, ArrayRef<int64_t>)> visit) {
  const int64_t count = product(shape);
  Shape index(shape.size(), 0), at(strides.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    visit(n, at);
    for (size_t dim = shape.size(); dim-- > 0;) {
      const bool wraps = ++index[dim] == shape[dim];
      const int64_t moved = wraps ? 1 - shape[dim] : 1;
      for (size_t i = 0; i < at.size(); ++i)
        at[i] += moved * strides[i][dim];
      if (!wraps)
        break;
      index[dim] = 0;
    }
  }
}

/// Visits the distinct elements of several constants seen under one shape.
template <typename Visit> static Host zip(Type element, ArrayRef<Host> inputs, Visit visit) {
  SmallVector<Shape> shapes = llvm::map_to_vector(inputs, [](const Host &h) { return h->shape; });
  auto shape = broadcastShapes(shapes);
  if (failed(shape))
    return {};
  SmallVector<Host> seen;
  SmallVector<Shape> strides;
  Shape stored(shape->size(), 1);
  for (const Host &input : inputs) {
    seen.push_back(expandHost(input, *shape));
    strides.push_back(seen.back()->strides());
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] = std::max(stored[i], seen.back()->stored[i]);
  }
  for (size_t i = 0; i < stored.size(); ++i)
    if ((*shape)[i] == 0)
      stored[i] = 0;
  if (!fitsConstant(element, stored))
    return {};
  auto result = std::make_shared<HostTensor>(element, *shape, stored);
  bool defined = true;
  forEachOffset(stored, strides,
                [&](int64_t to, ArrayRef<int64_t> at) { defined &= visit(*result, to, at); });
  if (!defined)
    return {};
  result->compress();
  return result;
}

Host evaluateBinary(StringRef op, const Host &lhs, const Host &rhs) {
  const Type bit = IntegerType::get(lhs->element.getContext(), 1);
  if (compare<int>(op, 0, 0) >= 0)
    return zip(bit, {lhs, rhs}, [&](HostTensor &out, int64_t to, ArrayRef<int64_t> at) {
      out.ints[to] = lhs->isFloat() ? compare(op, lhs->floats[at[0]], rhs->floats[at[1]])
                                    : compare(op, lhs->ints[at[0]], rhs->ints[at[1]]);
      return true;
    });
  if (lhs->isFloat()) {
    FloatBinary apply = floatBinary(op);
    return !apply ? Host()
                  : zip(lhs->element, {lhs, rhs},
                        [&](HostTensor &out, int64_t to, ArrayRef<int64_t> at) {
                          out.floats[to] =
                              roundTo(lhs->element, apply(lhs->floats[at[0]], rhs->floats[at[1]]));
                          return true;
                        });
  }
  IntBinary apply = intBinary(op);
  const bool divides = op == "Div" || op == "Mod" || op == "Remainder";
  return !apply ? Host()
                : zip(lhs->element, {lhs, rhs},
                      [&](HostTensor &out, int64_t to, ArrayRef<int64_t> at) {
                        const int64_t a = lhs->ints[at[0]], b = rhs->ints[at[1]];
                        if (divides && b == 0)
                          return false;
                        out.ints[to] = wrapTo(lhs->element, apply(a, b));
                        return true;
                      });
}

Host evaluateWhere(const Host &condition, const Host &lhs, const Host &rhs) {
  return zip(lhs->element, {condition, lhs, rhs},
             [&](HostTensor &out, int64_t to, ArrayRef<int64_t> at) {
               const bool first = condition->ints[at[0]];
               const HostTensor &from = first ? *lhs : *rhs;
               const int64_t position = first ? at[1] : at[2];
               if (from.isFloat())
                 out.floats[to] = from.floats[position];
               else
                 out.ints[to] = from.ints[position];
               return true;
             });
}

int64_t truncated(double value) {
  const double end = std::ldexp(1.0, 63);
  return value >= -end && value < end ? static_cast<int64_t>(value) : INT64_MIN;
}

Host evaluateCast(const Host &input, Type to) {
  if (input->element == to)
    return input;
  auto result = std::make_shared<HostTensor>(to, input->shape, input->stored);
  for (int64_t i = 0; i < input->numStored(); ++i) {
    if (result->isFloat()) {
      result->floats[i] = roundTo(to, input->number(i));
    } else if (input->isFloat()) {
      const double value = input->floats[i];
      if (to.isInteger(1))
        result->ints[i] = value != 0;
      else
        result->ints[i] = wrapTo(to, truncated(value));
    } else {
      result->ints[i] = wrapTo(to, input->ints[i]);
    }
  }
  result->compress();
  return result;
}

} // namespace dtc::import
