#include "dtc/Plan/Plan/AttentionParts.h"

#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>
#include <optional>
#include <set>

namespace dtc::plan {
namespace {

using sharding::Strided;

std::optional<Strided> taken(const Op &attention, const std::vector<int64_t> &shape,
                             const Strided &place) {
  const bool reads = attention.partAlignment > 0 && shape.size() == 4;
  return reads ? sharding::alignedRows(shape, place, attention.partAlignment) : std::nullopt;
}

/// Whether the result's elements are those of an operand, which strides may tell.
bool isView(const Op &op) {
  return op.operands.size() == 1 && (op.kind == OpKind::View || !op.reads.empty());
}

/// A value as a part of one that is stored, whoever reads it.
struct Part {
  ValueId base = -1;
  Strided place;
};

std::optional<Part> partOf(const Problem &problem, const ProblemFacts &facts, ValueId value) {
  const OpId producer = facts.producer[value];
  const std::vector<int64_t> &shape = problem.values[value].shape;
  const Part whole = {value, sharding::dense(shape)};
  if (producer < 0)
    return whole;
  const Op &op = problem.ops[producer];
  if (isView(op)) {
    const ValueId source = op.operands[0];
    std::optional<Part> before = partOf(problem, facts, source);
    if (!before)
      return std::nullopt;
    std::optional<Strided> place =
        op.kind == OpKind::View
            ? sharding::reshaped(problem.values[source].shape, before->place, shape)
            : sharding::readOf(before->place, op.reads);
    return place ? std::optional(Part{before->base, *place}) : std::nullopt;
  }
  // What a kernel makes, it makes part by part.
  return isInLibraryCall(op) ? std::optional(whole) : std::nullopt;
}

std::optional<Part> takenPart(const Problem &problem, const ProblemFacts &facts, ValueId value,
                              const Op &attention) {
  std::optional<Part> part = partOf(problem, facts, value);
  return part && taken(attention, problem.values[value].shape, part->place) ? part : std::nullopt;
}

/// All operands but a bias, which is the last.
std::vector<ValueId> operandsInParts(const Op &attention) {
  const size_t most = attention.backward ? 6 : 3; // output, statistics and gradient, too
  std::vector<ValueId> operands = attention.operands;
  operands.resize(std::min(operands.size(), most));
  return operands;
}

/// The dimension along which an op puts its operands together, if it adds nothing of its own as
/// padding does.
std::optional<size_t> joinedDim(const Problem &problem, const Op &op) {
  const Value &joined = problem.values[op.results[0]];
  int64_t elements = 0;
  std::optional<size_t> dim;
  for (ValueId value : op.operands) {
    const std::vector<int64_t> &part = problem.values[value].shape;
    elements += problem.values[value].elements();
    if (part.size() != joined.shape.size())
      return std::nullopt;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part[i] == joined.shape[i])
        continue;
      if (dim.value_or(i) != i)
        return std::nullopt;
      dim = i;
    }
  }
  return op.kind == OpKind::Join && elements == joined.elements() ? dim : std::nullopt;
}

/// Whether one op reads the value, once, and nothing else does.
bool isReadOnce(const Problem &problem, const ProblemFacts &facts, ValueId value) {
  if (facts.consumers[value].size() != 1 || facts.isResult[value])
    return false;
  const std::vector<ValueId> &read = problem.ops[facts.consumers[value][0]].operands;
  return std::count(read.begin(), read.end(), value) == 1;
}

/// The op that makes a value which becomes the part of another at this place, if it can write it
/// there; else -1.
OpId writerOf(const Problem &problem, const ProblemFacts &facts, ValueId value, Strided place) {
  for (;;) {
    const OpId producer = facts.producer[value];
    const std::vector<int64_t> &shape = problem.values[value].shape;
    if (producer < 0 || !isReadOnce(problem, facts, value))
      return -1;
    const Op &op = problem.ops[producer];
    if (!isView(op))
      return taken(op, shape, place) ? producer : -1;
    const std::vector<int64_t> &source = problem.values[op.operands[0]].shape;
    std::optional<Strided> before = op.kind == OpKind::View
                                        ? sharding::reshaped(shape, place, source)
                                        : sharding::placeOfOperand(source, op.reads, shape, place);
    if (!before)
      return -1;
    value = op.operands[0];
    place = *before;
  }
}

} // namespace

bool isReadInPlace(const Problem &problem, const ProblemFacts &facts, OpId attention,
                   ValueId value) {
  const Op &op = problem.ops[attention];
  if (op.kind != OpKind::Attention || op.decomposed)
    return false;
  const std::vector<ValueId> operands = operandsInParts(op);
  std::optional<Part> part = takenPart(problem, facts, value, op);
  if (!part || std::find(operands.begin(), operands.end(), value) == operands.end())
    return false;
  std::set<ValueId> read;
  int64_t elements = 0;
  for (ValueId operand : operands)
    if (std::optional<Part> other = takenPart(problem, facts, operand, op);
        other && other->base == part->base && read.insert(operand).second)
      elements += problem.values[operand].elements();
  return elements >= problem.values[part->base].elements();
}

bool joinsInPlace(const Problem &problem, const ProblemFacts &facts, OpId id) {
  const Op &op = problem.ops[id];
  if (op.kind != OpKind::Join)
    return false;
  std::optional<size_t> dim = joinedDim(problem, op);
  if (!dim)
    return false;
  Strided whole = sharding::dense(problem.values[op.results[0]].shape);
  OpId attention = -1;
  for (ValueId value : op.operands) {
    const OpId writer = writerOf(problem, facts, value, whole);
    if (writer < 0 || (attention >= 0 && writer != attention))
      return false;
    attention = writer;
    whole.offset += problem.values[value].shape[*dim] * whole.strides[*dim];
  }
  const Op &made = problem.ops[attention];
  return made.kind == OpKind::Attention && made.backward && !made.decomposed;
}

} // namespace dtc::plan
