#include "Reads.h"

#include "dtc/Plan/Plan/Trains.h"

#include "dtc-io/CheckedSize.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dtc::plan {

using sharding::FactorId;
using sharding::TensorFactors;

int64_t byteSize(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::F16:
    return 2;
  case DType::I8:
  case DType::U8:
  case DType::Bool:
    return 1;
  }
  return 4;
}

int64_t Value::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

int64_t Problem::parameterElements() const {
  int64_t result = 0;
  for (const Value &value : values)
    if (value.kind == ValueKind::Parameter)
      result += value.elements() - value.padding;
  return result;
}

int64_t Problem::paddingElements() const {
  int64_t result = 0;
  for (const Value &value : values)
    if (value.kind == ValueKind::Parameter)
      result += value.padding;
  return result;
}

bool trains(const Problem &problem) {
  return std::any_of(
      problem.results.begin(), problem.results.end(),
      [](const FunctionResult &result) { return result.kind == ResultKind::Gradient; });
}

//===-- consistency -------------------------------------------------------===//

static std::string opName(const Problem &problem, size_t op) {
  return "op " + std::to_string(op) + " (" + problem.ops[op].name + ")";
}

static std::string checkTensor(const Problem &problem, const Op &op, ValueId value,
                               const TensorFactors &dims) {
  const std::vector<int64_t> &shape = problem.values[value].shape;
  if (dims.size() != shape.size())
    return "rule has " + std::to_string(dims.size()) + " dimensions for value " +
           std::to_string(value) + " of rank " + std::to_string(shape.size());
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    int64_t size = 1;
    for (FactorId factor : dims[dim]) {
      if (factor < 0 || factor >= static_cast<FactorId>(op.rule->factors.size()))
        return "rule names a factor that it lacks: " + std::to_string(factor);
      size *= op.rule->factors[factor].size;
    }
    if (size != shape[dim])
      return "factors of dimension " + std::to_string(dim) + " of value " +
             std::to_string(value) + " multiply to " + std::to_string(size) + ", not to " +
             std::to_string(shape[dim]);
  }
  return "";
}

bool readsInside(const Problem &problem, const Op &op) {
  if (op.kind != OpKind::Reindex || op.operands.size() != 1 || op.results.size() != 1)
    return false;
  const std::vector<int64_t> &from = problem.values[op.operands[0]].shape,
                             &to = problem.values[op.results[0]].shape;
  if (op.reads.size() != to.size())
    return false;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto &[dim, start, step] = op.reads[i];
    if (dim < 0 ? dim != -1 || start != 0 || step != 0
                : dim >= static_cast<int>(from.size()) || start < 0 || start >= from[dim] ||
                      step < 1 || step > from[dim] || to[i] - 1 > (from[dim] - 1 - start) / step)
      return false;
  }
  return true;
}

static std::string checkOp(const Problem &problem, size_t index, std::vector<bool> &defined) {
  const Op &op = problem.ops[index];
  if (op.rule->operands.size() != op.operands.size() ||
      op.rule->results.size() != op.results.size())
    return "rule and op differ in the number of operands or results";
  for (ValueId value : op.operands)
    if (value < 0 || value >= static_cast<ValueId>(defined.size()) || !defined[value])
      return "operand is not defined before: " + std::to_string(value);
  for (ValueId value : op.results) {
    if (value < 0 || value >= static_cast<ValueId>(defined.size()) || defined[value])
      return "result is no new value: " + std::to_string(value);
    defined[value] = true;
  }
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (std::string error = checkTensor(problem, op, op.operands[i], op.rule->operands[i]);
        !error.empty())
      return error;
  for (size_t i = 0; i < op.results.size(); ++i)
    if (std::string error = checkTensor(problem, op, op.results[i], op.rule->results[i]);
        !error.empty())
      return error;
  for (const std::vector<int> &set : op.rule->linear)
    for (int operand : set)
      if (operand < 0 || operand >= static_cast<int>(op.operands.size()))
        return "linear set names no operand: " + std::to_string(operand);
  auto numFactors = static_cast<FactorId>(op.rule->factors.size());
  for (const Round &round : op.rounds) {
    std::vector<FactorId> named = round.tensor;
    named.push_back(round.factor);
    for (FactorId factor : named)
      if (factor < 0 || factor >= numFactors)
        return "round names a factor that the rule lacks: " + std::to_string(factor);
  }
  if (op.dear && op.kind != OpKind::Elementwise)
    return "only arithmetic is dear: " + op.name;
  if (op.window < 0 || (op.window > 0 && (op.kind != OpKind::Attention || !op.causal)))
    return "window is of causal attention alone: " + std::to_string(op.window);
  if (!op.reads.empty() && !readsInside(problem, op))
    return "reads what its operand hasn't: " + op.name;
  if (op.decomposed && op.kind != OpKind::Attention)
    return "only attention is decomposed: " + op.name;
  if (op.partAlignment < 0 || (op.partAlignment > 0 && op.kind != OpKind::Attention))
    return "parts of tensors are of attention alone: " + op.name;
  if (op.inProduct && op.kind != OpKind::Elementwise && op.kind != OpKind::Reduction)
    return "is no part of a product: " + op.name;
  if (op.widened && op.kind != OpKind::Contraction && op.kind != OpKind::Reduction &&
      op.kind != OpKind::Attention)
    return "only products, sums and attention are widened: " + op.name;
  if (op.groupedExperts < -1 || op.groupedExperts >= numFactors)
    return "factor of grouped experts is none of the rule: " + std::to_string(op.groupedExperts);
  if (op.forward < -1 || op.forward > static_cast<OpId>(index))
    return "forward op does not stand before: " + std::to_string(op.forward);
  return "";
}

const char *name(ValueKind kind) {
  switch (kind) {
  case ValueKind::Parameter:
    return "parameter";
  case ValueKind::Buffer:
    return "buffer";
  case ValueKind::Input:
    return "input";
  case ValueKind::Target:
    return "target";
  case ValueKind::Scalar:
    return "scalar";
  case ValueKind::Accumulator:
    return "accumulator";
  case ValueKind::Activation:
    break;
  }
  return "activation";
}

std::map<std::string, ValueId> parametersByName(const Problem &problem) {
  std::map<std::string, ValueId> result;
  for (ValueId value = 0; value < problem.arguments; ++value)
    if (problem.values[value].kind == ValueKind::Parameter)
      result[problem.values[value].name] = value;
  return result;
}

/// A parameter's gradient is laid out as the parameter.
static std::string checkGradients(const Problem &problem) {
  std::map<std::string, ValueId> parameters = parametersByName(problem);
  for (const FunctionResult &result : problem.results)
    if (auto it = parameters.find(result.name);
        result.kind == ResultKind::Gradient && it != parameters.end() &&
        problem.values[it->second].shape != problem.values[result.value].shape)
      return "gradient has another shape than its parameter: " + result.name;
  return "";
}

/// Only frozen parameters are kept in fewer bits than their type has.
static bool isStoredAsSaid(const Value &value) {
  bool isFrozen = value.kind == ValueKind::Parameter && !value.trainable;
  return value.storedBits == 0 || (isFrozen && value.storedBits > 0 &&
                                   value.storedBits < 8.0 * double(byteSize(value.type)));
}

std::string check(const Problem &problem) {
  constexpr int64_t kWidestElement = 8; // bytes
  auto numValues = static_cast<int64_t>(problem.values.size());
  if (problem.arguments < 0 || problem.arguments > numValues)
    return "number of arguments is out of range: " + std::to_string(problem.arguments);
  std::vector<bool> defined(numValues, false);
  std::fill(defined.begin(), defined.begin() + problem.arguments, true);
  for (int64_t value = 0; value < numValues; ++value) {
    bool isArgument = problem.values[value].kind != ValueKind::Activation;
    if (isArgument != (value < problem.arguments))
      return "arguments must be the first values: " + std::to_string(value);
    for (int64_t size : problem.values[value].shape)
      if (size < 1)
        return "value " + std::to_string(value) + " has a dimension of size " +
               std::to_string(size);
    if (!(io::CheckedSize::product(problem.values[value].shape) * kWidestElement))
      return "value " + std::to_string(value) +
             " has too many elements: " + shapeText(problem.values[value].shape);
    if (!isStoredAsSaid(problem.values[value]))
      return "value " + std::to_string(value) + " can't be stored in bits of its own";
  }
  for (size_t op = 0; op < problem.ops.size(); ++op)
    if (std::string error = checkOp(problem, op, defined); !error.empty())
      return opName(problem, op) + ": " + error;
  for (const FunctionResult &result : problem.results)
    if (result.value < 0 || result.value >= numValues || !defined[result.value])
      return "function result is not defined: " + std::to_string(result.value);
  if (problem.numMicrobatches < 1)
    return "number of microbatches must be positive: " + std::to_string(problem.numMicrobatches);
  return checkGradients(problem);
}

} // namespace dtc::plan
