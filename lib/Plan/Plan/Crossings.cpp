#include "dtc/Plan/Plan/Crossings.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

/// A gradient in a larger type, as sums of it are made in that.
static bool isWidened(const Problem &problem, OpId id) {
  const Op &op = problem.ops[id];
  if (!op.backward || op.kind != OpKind::Elementwise || op.operands.size() != 1)
    return false;
  const Value &of = problem.values[op.operands[0]], &made = problem.values[op.results[0]];
  return of.elements() == made.elements() && byteSize(of.type) < byteSize(made.type);
}

/// What is only widened is so where it is read: the smaller one crosses cuts.
static void widenWhereRead(const Problem &problem, const ProblemFacts &facts,
                           std::vector<int> &parts) {
  for (auto id = static_cast<OpId>(problem.ops.size()); id-- > 0;) {
    if (parts[id] < 0 || !isWidened(problem, id) || facts.isResult[problem.ops[id].results[0]])
      continue;
    int nearest = -1;
    for (OpId reader : facts.consumers[problem.ops[id].results[0]])
      nearest = std::max(nearest, parts[reader]);
    if (nearest >= 0)
      parts[id] = std::min(parts[id], nearest);
  }
}

std::vector<int> partsOfOps(const Problem &problem, const ProblemFacts &facts,
                            const std::function<int(OpId)> &partAt) {
  constexpr int kNone = std::numeric_limits<int>::max();
  std::vector<int> parts;
  parts.reserve(problem.ops.size());
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    parts.push_back(facts.isStatic[id] ? -1 : partAt(facts.position[id]));
    const Op &op = problem.ops[id];
    if (op.kind != OpKind::GradientSum)
      continue;
    // A gradient is summed up as soon as all its terms are there, and sent as one.
    int complete = kNone;
    for (ValueId term : op.operands)
      if (OpId producer = facts.producer[term]; producer >= 0 && parts[producer] >= 0)
        complete = std::min(complete, parts[producer]);
    if (complete != kNone)
      parts.back() = std::max(parts.back(), complete);
  }
  widenWhereRead(problem, facts, parts);
  return parts;
}

std::vector<Crossing> crossingsOf(const Problem &problem, const ProblemFacts &facts,
                                  const std::vector<int> &parts) {
  std::vector<Crossing> result;
  for (auto value = static_cast<ValueId>(problem.arguments);
       value < static_cast<ValueId>(problem.values.size()); ++value) {
    OpId producer = facts.producer[value];
    if (parts[producer] < 0)
      continue; // computed where it is needed
    if (facts.gradientOf[value] >= 0 && facts.gradientOf[value] < problem.arguments)
      continue; // parts that share a weight sum its gradients once a step
    int maker = parts[producer], last = maker, first = maker;
    bool isForward = !problem.ops[producer].backward;
    for (OpId reader : facts.consumers[value]) {
      if (isForward && !problem.ops[reader].backward)
        last = std::max(last, parts[reader]);
      if (!isForward && !facts.isResult[value])
        first = std::min(first, parts[reader]);
    }
    if (last > maker)
      result.push_back({value, maker, last});
    if (first < maker)
      result.push_back({value, maker, first});
  }
  return result;
}

} // namespace dtc::plan
