#include "dtc/Plan/Explain/ShardingExplanation.h"

#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Predict/StageDevices.h"
#include "dtc/Plan/Search/CompletePlan.h"
#include "dtc/Plan/Shard/ShardingSolver.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;
using sharding::FactorId;
using sharding::FactorKind;
using sharding::OpSharding;
using sharding::TensorSharding;

namespace {

/// What is known of the whole plan.
struct ExplainedPlan {
  const Problem &given;
  const Problem problem; ///< as the solver sees it
  const ProblemFacts facts;
  const Plan &plan;
  const Prediction &predicted;
  const Cluster &cluster;
  const Workspace *workspace;
};

/// What has a name: one of the two.
struct Named {
  ValueId argument = -1;
  OpId op = -1;
};

/// In the mesh of one stage group.
class ShardingExplainer {
public:
  ShardingExplainer(const ExplainedPlan &whole, const SolverOptions &given, size_t group);

  ShardingExplanation run(const Named &named) {
    return named.op >= 0 ? explainOp(named.op) : explainArgument(named.argument);
  }

private:
  ShardingExplanation explainArgument(ValueId value);
  ShardingExplanation explainOp(OpId op);
  ShardingWay priced(const std::string &text, const SolverOptions::Forced &forced);
  AxisList dividing(int64_t size) const;
  std::string notDividing(const std::string &what, int64_t size) const;
  std::string opText(OpId id, const OpSharding &choice) const;
  std::string factorText(const Op &op, FactorId factor) const;
  std::string whyNot(OpId id, FactorId factor) const;

  const ExplainedPlan &whole;
  const Problem &problem;
  const ProblemFacts &facts;
  const size_t group;
  const Plan plan;       ///< as if all stages were in the group
  const Cluster devices; ///< those of its stages
  SolverOptions solver;
  AxisList tensorAxes;
};

} // namespace

static DeviceRange devicesOfGroup(const Degrees &degrees, size_t group) {
  std::vector<DeviceRange> ranges = neighbouringDevices(degrees);
  size_t rank = 0;
  for (size_t before = 0; before < group; ++before)
    rank += static_cast<size_t>(degrees.groups[before].pp);
  return ranges[rank];
}

ShardingExplainer::ShardingExplainer(const ExplainedPlan &whole, const SolverOptions &given,
                                     size_t group)
    : whole(whole), problem(whole.problem), facts(whole.facts), group(group),
      plan(inGroup(whole.plan, group)),
      devices(whole.plan.degrees.groups.empty()
                  ? whole.cluster
                  : clusterOf(whole.cluster, devicesOfGroup(whole.plan.degrees, group))),
      solver(given), tensorAxes(plan.mesh.ofDegree("tp")) {
  if (solver.numMicrobatches > 0) // those of the first group
    solver.numMicrobatches =
        weighedMicrobatches(problem, plan.degrees, whole.plan.degrees.devices());
}

/// The tp axes, from the major one, that divide a size.
AxisList ShardingExplainer::dividing(int64_t size) const {
  AxisList result;
  for (sharding::AxisId axis : tensorAxes) {
    size_t ways = size_t(plan.mesh.size(result) * plan.mesh.axes[axis].size);
    if (size % int64_t(ways) != 0)
      break;
    result.push_back(axis);
  }
  return result;
}

std::string ShardingExplainer::notDividing(const std::string &what, int64_t size) const {
  return what + " has size " + std::to_string(size) + ", not a multiple of tp=" +
         std::to_string(plan.degrees.tp);
}

/// Fixes one thing and solves the rest.
ShardingWay ShardingExplainer::priced(const std::string &text,
                                      const SolverOptions::Forced &forced) {
  ShardingWay way{text, false, std::nullopt, ""};
  SolverOptions asked = solver;
  asked.forced = forced;
  auto solution = solveSharding(problem, facts, devices, plan.degrees, asked);
  if (!solution) {
    way.refusal = "what is around it can't follow";
    return way;
  }
  Plan other = whole.plan;
  setModelSharding(other, group, std::move(solution->plan));
  keepRest(whole.plan, other);
  std::vector<Violation> violations = verify(whole.given, other, whole.cluster);
  if (!violations.empty()) {
    way.refusal = violations[0].message;
    return way;
  }
  int64_t samples = plan.degrees.samples();
  Prediction predicted = predict(whole.given, other, whole.cluster, whole.workspace);
  way.difference = differenceOf(predicted, samples, whole.predicted, samples);
  return way;
}

//===-- tensors -----------------------------------------------------------===//

ShardingExplanation ShardingExplainer::explainArgument(ValueId id) {
  const Value &value = problem.values[id];
  const TensorSharding &own = plan.arguments.at(id);
  ShardingExplanation subject{value.name, name(value.kind), shapeText(value.shape), {}};
  subject.ways.push_back({own.str(plan.mesh), true, std::nullopt, ""});
  if (value.kind != ValueKind::Parameter || tensorAxes.empty())
    return subject;
  std::vector<TensorSharding> others = {TensorSharding::replicated(value.shape.size())};
  for (size_t dim = 0; dim < value.shape.size(); ++dim) {
    AxisList axes = dividing(value.shape[dim]);
    TensorSharding sharding = TensorSharding::replicated(value.shape.size());
    sharding.dims[dim] = axes.empty() ? tensorAxes : axes;
    if (axes.empty())
      subject.ways.push_back({sharding.str(plan.mesh), false, std::nullopt,
                              notDividing("dimension " + std::to_string(dim), value.shape[dim])});
    else
      others.push_back(std::move(sharding));
  }
  for (const TensorSharding &sharding : others)
    if (!(sharding == own)) {
      SolverOptions::Forced forced;
      forced.argument = id;
      forced.tensor = sharding;
      subject.ways.push_back(priced(sharding.str(plan.mesh), forced));
    }
  return subject;
}

//===-- ops ---------------------------------------------------------------===//

/// "[{}, {}], [{}, {"tp"}] -> [{}, {"tp"}]".
std::string ShardingExplainer::opText(OpId id, const OpSharding &choice) const {
  const Op &op = problem.ops[id];
  std::string text;
  for (size_t i = 0; i < op.operands.size(); ++i)
    text += (i ? ", " : "") + operandSharding(op.rule, choice, i).str(plan.mesh);
  text += " ->";
  for (size_t i = 0; i < op.results.size(); ++i)
    text += (i ? ", " : " ") + resultSharding(op.rule, choice, i).str(plan.mesh);
  return text;
}

/// Where a factor appears: "dimension 2 of the result", "dimension 1 of operand 0".
std::string ShardingExplainer::factorText(const Op &op, FactorId factor) const {
  auto find = [&](const std::vector<sharding::TensorFactors> &tensors, const std::string &name) {
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t dim = 0; dim < tensors[i].size(); ++dim)
        if (std::find(tensors[i][dim].begin(), tensors[i][dim].end(), factor) !=
            tensors[i][dim].end())
          return "dimension " + std::to_string(dim) + " of " + name + " " + std::to_string(i);
    return std::string();
  };
  std::string text = find(op.rule->results, "result");
  return text.empty() ? find(op.rule->operands, "operand") : text;
}

/// Why tensor parallelism can't split a factor.
std::string ShardingExplainer::whyNot(OpId id, FactorId factor) const {
  const Op &op = problem.ops[id];
  const sharding::Factor &split = op.rule->factors[factor];
  std::string where = factorText(op, factor);
  if (factor == facts.batchFactor[id])
    return where + " is the batch, which data parallelism splits";
  if (split.kind == FactorKind::Whole)
    return where + " is needed whole";
  if (factor == op.groupedExperts)
    return where + " counts experts, which only ep splits: how many rows choose each is known at "
                   "run time";
  if (split.kind == FactorKind::Rounds && op.keepRounds)
    return "the op would have to be taken apart along " + where;
  if (dividing(split.size).empty())
    return notDividing(where, split.size);
  const std::vector<FactorId> &sequence = facts.sequenceFactors[id];
  if (!solver.sequenceParallel.value_or(true) &&
      std::find(sequence.begin(), sequence.end(), factor) != sequence.end())
    return where + " is the sequence, and sequence parallelism is off";
  return "its backward ops can't follow along " + where + ", or do the same as another way";
}

ShardingExplanation ShardingExplainer::explainOp(OpId id) {
  const Op &op = problem.ops[id];
  ShardingExplanation subject{op.location, op.name, "", {}};
  for (ValueId result : op.results)
    subject.shape += (subject.shape.empty() ? "" : ", ") + shapeText(problem.values[result].shape);
  subject.ways.push_back({opText(id, plan.ops[id]), true, std::nullopt, ""});
  if (tensorAxes.empty())
    return subject;
  std::vector<OpSharding> legal =
      ShardingSolver(problem, facts, devices, plan.degrees, solver).choicesOf(id);
  std::vector<bool> splits(op.rule->factors.size(), false);
  for (const OpSharding &choice : legal) {
    for (size_t f = 0; f < choice.factors.size(); ++f)
      for (sharding::AxisId axis : choice.factors[f])
        splits[f] = splits[f] || std::find(tensorAxes.begin(), tensorAxes.end(), axis) !=
                                     tensorAxes.end();
    if (choice == plan.ops[id])
      continue;
    SolverOptions::Forced forced;
    forced.op = id;
    forced.sharding = choice;
    subject.ways.push_back(priced(opText(id, choice), forced));
  }
  for (size_t f = 0; f < splits.size(); ++f)
    if (auto factor = static_cast<FactorId>(f); !splits[f] && op.rule->factors[f].size > 1)
      subject.ways.push_back({"split along " + factorText(op, factor), false, std::nullopt,
                              whyNot(id, factor)});
  return subject;
}

//===-- names -------------------------------------------------------------===//

static Result<Named> find(const Problem &problem, const std::string &name) {
  std::vector<std::string> known;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    bool isNamed = argument.kind != ValueKind::Scalar && argument.kind != ValueKind::Accumulator;
    if (!isNamed || argument.name.empty())
      continue;
    if (argument.name == name)
      return Named{value, -1};
    known.push_back(argument.name);
  }
  OpId found = -1;
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    const Op &op = problem.ops[id];
    if (op.backward || op.location.empty())
      continue;
    known.push_back(op.location);
    if (op.location == name && (found < 0 || op.flops > problem.ops[found].flops))
      found = id;
  }
  if (found >= 0)
    return Named{-1, found};
  std::string close = nearest(name, known);
  return Error{"--explain: the model has no tensor or node named '" + name + "'" +
                   (close.empty() ? "" : " (did you mean '" + close + "'?)"),
               ErrorCategory::Usage};
}

/// Whose stages have the op or read the tensor; the first group has what none reads.
static std::vector<size_t> groupsOf(const ExplainedPlan &whole, const Named &named) {
  const Degrees &degrees = whole.plan.degrees;
  const schedule::Placement placement = placementOf(degrees);
  std::vector<bool> has(groupCount(degrees), false);
  for (size_t index = 0; index < whole.plan.stages.size(); ++index) {
    const Stage &stage = whole.plan.stages[index];
    auto isHere = [&](OpId reader) {
      const Op &op = whole.problem.ops[reader];
      OpId forward = op.backward ? op.forward : reader;
      return forward >= stage.firstOp && forward <= stage.lastOp;
    };
    const std::vector<OpId> readers =
        named.op >= 0 ? std::vector<OpId>{named.op} : whole.facts.consumers[named.argument];
    if (std::any_of(readers.begin(), readers.end(), isHere))
      has[groupOf(degrees, placement.rank(static_cast<int64_t>(index)))] = true;
  }
  std::vector<size_t> result;
  for (size_t group = 0; group < has.size(); ++group)
    if (has[group])
      result.push_back(group);
  return result.empty() ? std::vector<size_t>{0} : result;
}

Result<std::vector<ShardingExplanation>> explainSharding(const Problem &problem, const Plan &plan,
                                            const Prediction &predicted, const Cluster &cluster,
                                            const SolverOptions &solver, const std::string &name,
                                            const Workspace *workspace) {
  Problem seen = withSplitSequence(problem, plan.degrees.cp);
  ProblemFacts facts(seen);
  ExplainedPlan whole{problem,   std::move(seen), std::move(facts), plan,
                      predicted, cluster,         workspace};
  Result<Named> named = find(whole.problem, name);
  if (!named)
    return named.error();
  std::vector<ShardingExplanation> result;
  for (size_t group : groupsOf(whole, *named)) {
    result.push_back(ShardingExplainer(whole, solver, group).run(*named));
    if (!plan.degrees.groups.empty())
      result.back().group = group;
  }
  return result;
}

} // namespace dtc::plan
