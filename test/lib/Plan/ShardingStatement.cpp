#include "ShardingStatement.h"

#include "Statement.h"

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Plan/Verify.h"

#include <set>

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
                  decider.layouts[choice] == plan.arguments.at(decider.parameter);
      for (size_t i = 0; i < decider.ops.size(); ++i)
        same &= decider.choices[choice][i] == plan.ops[decider.ops[i]];
      if (same)
        found = static_cast<int>(choice);
    }
    result.push_back(found);
  }
  return result;
}

std::vector<int> Statement::choicesOf(const Plan &plan) {
  addBundles();
  addParameters();
  return answered(plan);
}

std::vector<std::pair<int, int>> Statement::placesIn(const Folding &folding) {
  addBundles();
  addParameters();
  using Place = std::pair<int, std::pair<bool, int32_t>>; // block; a parameter's or an op's number
  std::vector<Place> places;
  for (const Decider &decider : deciders)
    if (decider.parameter < 0) {
      OpId op = folding.ops[decider.ops[0]];
      places.push_back({folding.opHome[op], {false, op}});
    } else {
      ValueId value = folding.values[decider.parameter];
      places.push_back({folding.valueHome[value], {true, value}});
    }
  std::set<Place> all(places.begin(), places.end());
  std::vector<std::pair<int, int>> result;
  for (const Place &place : places) {
    auto first = all.lower_bound({place.first, {false, -1}});
    result.emplace_back(place.first, static_cast<int>(std::distance(first, all.find(place))));
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
    list.push_back({{"name", decider.name}, {"costs", decider.costs}, {"held", decider.held}});
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
                              given.options).solveFolded(*folding);
  if (!found)
    return Error{"not folded"};
  if (*found)
    (*found)->plan = unfold(*folding, given.problem, std::move((*found)->plan));
  return std::move(*found);
}

/// Whether all of it was found, and its points.
static void addFrontier(const StatementCase &given, const ProblemFacts &facts, json &result) {
  auto folding = given.folded ? fold(given.problem, facts, findBlocks(given.problem, facts))
                              : std::nullopt;
  const Problem &problem = folding ? folding->problem : given.problem;
  ProblemFacts itsFacts(problem);
  auto found = ShardingSolver(problem, itsFacts, given.cluster, given.degrees, given.options)
                   .frontier({size_t{1} << 16, given.frontierPoints},
                             folding ? &*folding : nullptr);
  if (!found)
    return;
  result["exact"] = found->slack == 0;
  if (folding) {
    result["repeated"] = folding->repeated;
    result["places"] = Statement(given).placesIn(*folding);
  }
  for (const ShardingSolver::Sharded &each : found->shardings) {
    Plan plan = folding ? unfold(*folding, given.problem, each.plan) : each.plan;
    bool isLegal = verify(given.problem, plan, given.cluster).empty();
    result["frontier"].push_back({{"seconds", each.seconds},
                                  {"held", {each.states, each.results}},
                                  {"choices", Statement(given).choicesOf(plan)},
                                  {"legal", isLegal}});
  }
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
  if (given.frontierPoints > 0)
    addFrontier(given, facts, result);
  return result;
}

} // namespace dtc::plan::testing
