#include "dtc/Plan/Plan/ChangedBuffers.h"

#include <algorithm>

namespace dtc::plan {

namespace {

/// Takes ops into what one stage must have.
class Joiner {
public:
  Joiner(const Problem &problem, const ProblemFacts &facts)
      : problem(problem), facts(facts), first(facts.lastForward + 1) {}

  void add(OpId position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }

  /// What is computed from buffers alone is computed wherever it is read.
  void addReaders(ValueId value) {
    for (OpId reader : facts.consumers[value])
      if (facts.isStatic[reader])
        for (ValueId made : problem.ops[reader].results)
          addReaders(made);
      else if (!problem.ops[reader].backward)
        add(facts.position[reader]);
      else // the next microbatch may have passed the forward pass meanwhile
        addAll();
  }

  void addAll() {
    add(0);
    add(facts.lastForward);
  }

  const Problem &problem;
  const ProblemFacts &facts;
  OpId first, last = -1;
};

} // namespace

std::vector<JoinedOps> joinedOps(const Problem &problem, const ProblemFacts &facts) {
  std::vector<JoinedOps> result;
  for (const FunctionResult &changed : problem.results) {
    auto isIt = [&](const Value &value) {
      return value.kind == ValueKind::Buffer && value.name == changed.name;
    };
    auto end = problem.values.begin() + problem.arguments;
    auto buffer = std::find_if(problem.values.begin(), end, isIt);
    OpId producer = facts.producer[changed.value];
    if (changed.kind != ResultKind::Output || buffer == end || producer < 0)
      continue;
    Joiner ops(problem, facts);
    // What is made of buffers alone becomes a part of the first stage.
    ops.add(facts.isStatic[producer] ? 0 : facts.position[producer]);
    ops.addReaders(static_cast<ValueId>(buffer - problem.values.begin()));
    if (ops.first < ops.last)
      result.push_back({ops.first, ops.last, changed.name});
  }
  return result;
}

const JoinedOps *cutApart(const std::vector<JoinedOps> &joined, OpId begin) {
  auto cut = std::find_if(joined.begin(), joined.end(), [&](const JoinedOps &each) {
    return each.first < begin && begin <= each.last;
  });
  return cut == joined.end() ? nullptr : &*cut;
}

} // namespace dtc::plan
