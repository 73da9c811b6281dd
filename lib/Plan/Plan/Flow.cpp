#include "dtc/Plan/Plan/Flow.h"

#include "dtc/Sharding/Reshard.h"

namespace dtc::plan {

using sharding::TensorSharding;

namespace {

class Flow {
public:
  Flow(const Problem &problem, const ProblemFacts &facts, const Plan &plan)
      : problem(problem), facts(facts), plan(plan), made(problem.values.size()) {}

  std::optional<BrokenFlow> run() {
    for (ValueId value = 0; value < problem.arguments; ++value)
      made[value] = plan.arguments.at(value);
    for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()) && !broken; ++op)
      visit(op);
    for (const FunctionResult &result : problem.results)
      if (!broken)
        need(result.value, leavingSharding(result, made[result.value], facts, plan),
             facts.producer[result.value]);
    return std::move(broken);
  }

private:
  void visit(OpId id);
  void need(ValueId value, const TensorSharding &sharding, OpId reader);

  const Problem &problem;
  const ProblemFacts &facts;
  const Plan &plan;
  std::vector<TensorSharding> made; ///< by value
  std::optional<BrokenFlow> broken;
};

} // namespace

void Flow::need(ValueId value, const TensorSharding &sharding, OpId reader) {
  const TensorSharding &from = made[value];
  if (!broken && from != sharding && !sharding::reshard(from, sharding, plan.mesh))
    broken = {reader, "cannot bring a tensor from " + from.str(plan.mesh) + " to " +
                          sharding.str(plan.mesh)};
}

/// Terms of a sum of gradients are brought to the sharding of their sum.
void Flow::visit(OpId id) {
  const Op &op = problem.ops[id];
  const sharding::OpSharding &choice = plan.ops[id];
  for (size_t i = 0; i < op.results.size(); ++i)
    made[op.results[i]] = sharding::resultSharding(op.rule, choice, i);
  for (size_t i = 0; i < op.operands.size(); ++i)
    need(op.operands[i],
         op.kind == OpKind::GradientSum ? made[op.results[0]]
                                        : sharding::operandSharding(op.rule, choice, i),
         id);
}

TensorSharding leavingSharding(const FunctionResult &result, const TensorSharding &made,
                               const ProblemFacts &facts, const Plan &plan) {
  TensorSharding target = made;
  ValueId of = facts.gradientOf[result.value];
  if (result.kind == ResultKind::Output) {
    target.partial.clear();
  } else if (result.kind == ResultKind::Gradient && plan.arguments.contains(of)) {
    target.dims = plan.arguments.at(of).dims;
    std::erase_if(target.partial, [&](const sharding::Partial &partial) {
      return target.splits(partial.axis);
    });
  }
  return target;
}

std::optional<BrokenFlow> findBrokenFlow(const Problem &problem, const ProblemFacts &facts,
                                         const Plan &plan) {
  return Flow(problem, facts, plan).run();
}

} // namespace dtc::plan
