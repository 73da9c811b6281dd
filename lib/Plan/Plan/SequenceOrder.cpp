#include "dtc/Plan/Plan/SequenceOrder.h"

#include <set>

namespace dtc::plan {

static std::string nameOf(const Op &op) { return op.name + " (" + op.location + ")"; }

static bool isSquare(const Problem &problem, const Op &op) {
  const std::vector<int64_t> &queries = problem.values[op.operands[0]].shape,
                             &keys = problem.values[op.operands[1]].shape;
  return queries.size() == 4 && keys.size() == 4 && queries[1] == keys[1];
}

/// Keys that are gathered would have to be put in order each time.
static std::string whyNotAttention(const Problem &problem, const ProblemFacts &facts) {
  bool isCausal = false;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    if (op.kind != OpKind::Attention || op.backward || facts.isStatic[id])
      continue;
    if (op.operands.size() != 3)
      return "its bias belongs to keys in order: " + nameOf(op);
    if (op.window > 0)
      return "its window belongs to keys in order: " + nameOf(op);
    if (op.causal && !isSquare(problem, op))
      return "its causal mask doesn't begin with the keys: " + nameOf(op);
    isCausal |= op.causal;
  }
  return isCausal ? "" : "no attention has a causal mask";
}

static int64_t sequenceSize(const Problem &problem, const ProblemFacts &facts, OpId id) {
  return problem.ops[id].rule->factors[facts.sequenceSplit[id]].size;
}

static std::string whyNotDivided(const Problem &problem, const ProblemFacts &facts, int64_t ranks) {
  for (OpId id : facts.sequenceSizes)
    if (int64_t size = sequenceSize(problem, facts, id);
        size % ranks == 0 && size % (2 * ranks) != 0)
      return "a rank's part can't be halved of " + std::to_string(size) + ": " +
             nameOf(problem.ops[id]);
  return "";
}

/// Weights and tables enter functions in order, also those of which a rank has a part.
static std::string whyNotArguments(const Problem &problem, const ProblemFacts &facts) {
  for (size_t id = 0; id < problem.ops.size(); ++id)
    for (size_t i = 0; facts.sequenceSplit[id] >= 0 && i < problem.ops[id].operands.size(); ++i) {
      const ValueId value = problem.ops[id].operands[i];
      const ValueKind kind = problem.values[value].kind;
      if ((kind == ValueKind::Parameter || kind == ValueKind::Buffer) &&
          sharding::occurs(problem.ops[id].rule->operands[i], facts.sequenceSplit[id]))
        return "it has a row for each position: " + problem.values[value].name;
    }
  return "";
}

static std::string whyNotOutputs(const Problem &problem, const ProblemFacts &facts) {
  for (const FunctionResult &result : problem.results)
    if (result.kind == ResultKind::Output && facts.sequenceDim[result.value] >= 0)
      return "an output has a sequence: " + result.name;
  return "";
}

void findSequenceOrder(const Problem &problem, ProblemFacts &facts) {
  for (auto why : {whyNotOutputs, whyNotArguments, whyNotAttention})
    if (facts.keepsOrder.empty())
      facts.keepsOrder = why(problem, facts);
  std::set<int64_t> sizes;
  for (size_t id = 0; id < problem.ops.size(); ++id)
    if (auto op = static_cast<OpId>(id);
        facts.sequenceSplit[op] >= 0 && sizes.insert(sequenceSize(problem, facts, op)).second)
      facts.sequenceSizes.push_back(op);
}

bool passesKeysOn(const Degrees &degrees) {
  return degrees.cp > 1 && degrees.contextExchange == ContextExchange::Ring;
}

std::string whyInOrder(const Problem &problem, const ProblemFacts &facts,
                       const sharding::Mesh &mesh) {
  const sharding::AxisList axes = mesh.ofDegree("cp");
  const int64_t ranks = mesh.size(axes), tensorRanks = mesh.size(mesh.ofDegree("tp"));
  if (axes.size() != 1 || ranks == 1)
    return "cp is " + std::to_string(axes.size()) + " axes of " + std::to_string(ranks);
  if (tensorRanks > 1 && tensorRanks % 2 != 0)
    return "tp can't divide both halves of a rank's part: " + std::to_string(tensorRanks);
  return facts.keepsOrder.empty() ? whyNotDivided(problem, facts, ranks) : facts.keepsOrder;
}

bool liesInZigzag(const Problem &problem, const ProblemFacts &facts, const Plan &plan) {
  return passesKeysOn(plan.degrees) && whyInOrder(problem, facts, plan.mesh).empty();
}

sharding::TensorSharding asLoaded(const Value &argument, sharding::TensorSharding sharding,
                                  const sharding::Mesh &mesh) {
  if (argument.kind == ValueKind::Input || argument.kind == ValueKind::Target)
    for (sharding::AxisList &axes : sharding.dims)
      std::erase_if(axes, [&](sharding::AxisId axis) { return mesh.axes[axis].degree == "cp"; });
  return sharding;
}

} // namespace dtc::plan
