#include "ShardingStatement.h"

#include "Statement.h"

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Plan/Verify.h"

namespace dtc::plan::testing {

using nlohmann::json;

//===-- statement ---------------------------------------------------------===//

/// The solver's choice for each decider; -1: none of those stated.
std::vector<int> Statement::answered(const Plan &plan) const {
  std::vector<int> result;
  for (const Decider &decider : deciders) {
    int found = -1;
    for (size_t choice = 0; choice < decider.costs.size() && found < 0; ++choice) {
      bool same = decider.parameter < 0 ||
                  decider.shardings[choice] == plan.arguments.at(decider.parameter);
      for (size_t i = 0; i < decider.ops.size(); ++i)
        same &= decider.choices[choice][i] == plan.ops[decider.ops[i]];
      if (same)
        found = static_cast<int>(choice);
    }
    result.push_back(found);
  }
  return result;
}

json Statement::run(const Solution &solution) {
  addBundles();
  addParameters();
  for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value)
    addValue(value);
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op)
    if (problem.ops[op].kind == OpKind::GradientSum)
      addSum(op);
  for (ValueId value = 0; value < problem.arguments; ++value)
    addGradient(value);
  json list = json::array();
  for (const Decider &decider : deciders)
    list.push_back({{"name", decider.name}, {"costs", decider.costs}});
  return {{"deciders", list},
          {"transfers", transfers},
          {"tables", tables},
          {"axes", mesh.axes.size()},
          {"choices", answered(solution.plan)}};
}

static Result<Solution> solveFolded(const StatementCase &given, const ProblemFacts &facts) {
  auto folding = fold(given.problem, facts, findBlocks(given.problem, facts));
  if (!folding)
    return Error{"not folded"};
  ProblemFacts foldedFacts(folding->problem);
  auto found = ShardingSolver(folding->problem, foldedFacts, given.cluster, given.degrees,
                              given.options, nullptr, &*folding)
                   .solveFolded();
  if (!found)
    return Error{"not folded"};
  if (*found) {
    Plan &plan = (*found)->plan = unfold(*folding, given.problem, std::move((*found)->plan));
    plan.stages[0].devices = devicesOf(plan.degrees, plan.mesh, 0);
  }
  return std::move(*found);
}

json stateSharding(const StatementCase &given) {
  ProblemFacts facts(given.problem);
  auto solution = given.folded ? solveFolded(given, facts)
                               : solveSharding(given.problem, facts, given.cluster, given.degrees,
                                               given.options);
  if (!solution)
    return {{"error", solution.error().message}};
  std::vector<Violation> violations = verify(given.problem, solution->plan, given.cluster);
  if (!violations.empty())
    return {{"error", violations[0].message}};
  json result = Statement(given).run(*solution);
  result["seconds"] = solution->seconds;
  result["gap"] = solution->gap;
  result["predicted"] = predict(given.problem, solution->plan, given.cluster).stepSeconds;
  return result;
}

} // namespace dtc::plan::testing
