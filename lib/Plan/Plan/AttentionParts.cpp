#include "dtc/Plan/Plan/AttentionParts.h"

#include <algorithm>
#include <optional>
#include <set>

namespace dtc::plan {
namespace {

using Strides = std::vector<int64_t>;

Strides denseStrides(const std::vector<int64_t> &shape) {
  Strides strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

/// Of the same elements in another shape; nothing where none say it.
std::optional<Strides> reshaped(const std::vector<int64_t> &shape, const Strides &strides,
                                const std::vector<int64_t> &to) {
  Strides result(to.size(), 1);
  size_t left = shape.size();
  int64_t size = 1, stride = 1; // what is left of the dimensions that are joined
  for (size_t dim = to.size(); dim-- > 0;) {
    if (to[dim] == 1)
      continue;
    while (left > 0 && (size == 1 || shape[left - 1] == 1 || strides[left - 1] == stride * size)) {
      --left;
      if (shape[left] == 1)
        continue;
      if (size == 1)
        stride = strides[left];
      size *= shape[left];
    }
    if (size % to[dim] != 0)
      return std::nullopt;
    result[dim] = stride;
    size /= to[dim];
    stride *= to[dim];
  }
  return result;
}

/// Those of an op's result from those of its operand.
std::optional<Strides> viewed(const Problem &problem, const Op &op, const Strides &strides) {
  const std::vector<int64_t> &from = problem.values[op.operands[0]].shape,
                             &to = problem.values[op.results[0]].shape;
  if (op.kind == OpKind::View)
    return reshaped(from, strides, to);
  if (op.name == "dtc.slice")
    return strides;
  if (op.name != "dtc.transpose")
    return std::nullopt;
  Strides result;
  const sharding::TensorFactors &before = op.rule->operands[0];
  for (const auto &factors : op.rule->results[0]) {
    auto dim = std::find(before.begin(), before.end(), factors) - before.begin();
    result.push_back(strides[static_cast<size_t>(dim)]);
  }
  return result;
}

bool isTaken(const std::vector<int64_t> &shape, const Strides &strides, int64_t alignment) {
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim)
    if (shape[dim] != 1 && strides[dim] % alignment != 0)
      return false;
  return shape.size() == 4 && strides.back() == 1;
}

/// A value as a part of one that is stored, whoever reads it.
struct Part {
  ValueId base = -1;
  Strides strides;
};

std::optional<Part> partOf(const Problem &problem, const ProblemFacts &facts, ValueId value) {
  const OpId producer = facts.producer[value];
  const Part whole = {value, denseStrides(problem.values[value].shape)};
  if (producer < 0)
    return whole;
  const Op &op = problem.ops[producer];
  if (op.kind == OpKind::View || op.kind == OpKind::Reindex) {
    std::optional<Part> before = partOf(problem, facts, op.operands[0]);
    std::optional<Strides> strides;
    if (before)
      strides = viewed(problem, op, before->strides);
    return strides ? std::optional(Part{before->base, *strides}) : std::nullopt;
  }
  // What a kernel makes, it makes part by part.
  const bool isCall =
      op.kind == OpKind::Contraction || op.kind == OpKind::Attention || op.inProduct;
  return isCall ? std::optional(whole) : std::nullopt;
}

std::optional<Part> takenPart(const Problem &problem, const ProblemFacts &facts, ValueId value,
                              int64_t alignment) {
  std::optional<Part> part = partOf(problem, facts, value);
  const bool taken = part && isTaken(problem.values[value].shape, part->strides, alignment);
  return taken ? part : std::nullopt;
}

} // namespace

bool isReadInPlace(const Problem &problem, const ProblemFacts &facts, OpId attention,
                   ValueId value) {
  const Op &op = problem.ops[attention];
  if (op.kind != OpKind::Attention || op.decomposed || op.partAlignment == 0)
    return false;
  std::optional<Part> part = takenPart(problem, facts, value, op.partAlignment);
  if (!part)
    return false;
  std::set<ValueId> read;
  int64_t elements = 0;
  for (ValueId operand : op.operands)
    if (std::optional<Part> other = takenPart(problem, facts, operand, op.partAlignment);
        other && other->base == part->base && read.insert(operand).second)
      elements += problem.values[operand].elements();
  return elements >= problem.values[part->base].elements();
}

bool joinsInPlace(const Problem &problem, const ProblemFacts &facts, OpId id) {
  const Op &op = problem.ops[id];
  if (op.kind != OpKind::Join || op.name != "dtc.concat")
    return false;
  OpId attention = -1;
  for (ValueId value : op.operands) {
    auto isReadOnce = [&] { return facts.consumers[value].size() == 1; };
    OpId producer = facts.producer[value];
    while (producer >= 0 && problem.ops[producer].kind == OpKind::View && isReadOnce()) {
      value = problem.ops[producer].operands[0];
      producer = facts.producer[value];
    }
    if (producer < 0 || !isReadOnce() || (attention >= 0 && producer != attention))
      return false;
    attention = producer;
  }
  const Op &made = problem.ops[attention];
  return made.kind == OpKind::Attention && made.backward && !made.decomposed &&
         made.partAlignment > 0;
}

} // namespace dtc::plan
