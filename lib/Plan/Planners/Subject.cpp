#include "dtc/Plan/Subject.h"

#include "Realize.h"
#include "ShardingSolver.h"

#include "dtc/Plan/Verify.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;
using sharding::FactorId;
using sharding::FactorKind;
using sharding::OpSharding;
using sharding::TensorSharding;

static std::string shapeText(const Value &value) {
  std::string text;
  for (int64_t size : value.shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

namespace {

class SubjectExplainer {
public:
  SubjectExplainer(const Problem &given, const Plan &plan, const Prediction &predicted,
                   const Cluster &cluster, const SolverOptions &solver, const Workspace *workspace)
      : given(given), problem(plan.degrees.cp > 1 ? withSplitQueries(given) : given),
        facts(problem), plan(plan), predicted(predicted), cluster(cluster), solver(solver),
        workspace(workspace), tensorAxes(plan.mesh.ofDegree("tp")) {}

  Result<Subject> run(const std::string &name);

private:
  Subject explainArgument(ValueId value);
  Subject explainOp(OpId op);
  SubjectWay priced(const std::string &text, const SolverOptions::Forced &forced);
  AxisList dividing(int64_t size) const;
  std::string notDividing(const std::string &what, int64_t size) const;
  std::string opText(OpId id, const OpSharding &choice) const;
  std::string factorText(const Op &op, FactorId factor) const;
  std::string whyNot(OpId id, FactorId factor) const;

  const Problem &given;
  const Problem problem; ///< as the solver sees it
  ProblemFacts facts;
  const Plan &plan;
  const Prediction &predicted;
  const Cluster &cluster;
  SolverOptions solver;
  const Workspace *workspace;
  AxisList tensorAxes;
};

} // namespace

/// The tp axes, from the major one, that divide a size.
AxisList SubjectExplainer::dividing(int64_t size) const {
  AxisList result;
  for (sharding::AxisId axis : tensorAxes) {
    size_t ways = size_t(plan.mesh.size(result) * plan.mesh.axes[axis].size);
    if (size % int64_t(ways) != 0)
      break;
    result.push_back(axis);
  }
  return result;
}

std::string SubjectExplainer::notDividing(const std::string &what, int64_t size) const {
  return what + " has size " + std::to_string(size) + ", not a multiple of tp=" +
         std::to_string(plan.degrees.tp);
}

/// Fixes one thing and solves the rest.
SubjectWay SubjectExplainer::priced(const std::string &text, const SolverOptions::Forced &forced) {
  SubjectWay way{text, false, std::nullopt, ""};
  SolverOptions asked = solver;
  asked.forced = forced;
  auto solution = solveSharding(problem, facts, cluster, plan.degrees, asked);
  if (!solution) {
    way.refusal = "what is around it can't follow";
    return way;
  }
  Plan other = std::move(solution->plan);
  keepRest(plan, other);
  std::vector<Violation> violations = verify(given, other, cluster);
  if (!violations.empty()) {
    way.refusal = violations[0].message;
    return way;
  }
  int64_t samples = samplesOf(plan.degrees);
  way.difference =
      differenceOf(predict(given, other, cluster, workspace), samples, predicted, samples);
  return way;
}

//===-- tensors -----------------------------------------------------------===//

Subject SubjectExplainer::explainArgument(ValueId id) {
  const Value &value = problem.values[id];
  const TensorSharding &own = plan.arguments.at(id);
  Subject subject{value.name, name(value.kind), shapeText(value), {}};
  subject.ways.push_back({own.str(plan.mesh), true, std::nullopt, ""});
  if (value.kind != ValueKind::Parameter || tensorAxes.empty())
    return subject;
  std::vector<TensorSharding> others = {TensorSharding::replicated(value.shape.size())};
  for (size_t dim = 0; dim < value.shape.size(); ++dim) {
    AxisList axes = dividing(value.shape[dim]);
    TensorSharding layout = TensorSharding::replicated(value.shape.size());
    layout.dims[dim] = axes.empty() ? tensorAxes : axes;
    if (axes.empty())
      subject.ways.push_back({layout.str(plan.mesh), false, std::nullopt,
                              notDividing("dimension " + std::to_string(dim), value.shape[dim])});
    else
      others.push_back(std::move(layout));
  }
  for (const TensorSharding &layout : others)
    if (!(layout == own)) {
      SolverOptions::Forced forced;
      forced.argument = id;
      forced.layout = layout;
      subject.ways.push_back(priced(layout.str(plan.mesh), forced));
    }
  return subject;
}

//===-- ops ---------------------------------------------------------------===//

/// "[{}, {}], [{}, {"tp"}] -> [{}, {"tp"}]".
std::string SubjectExplainer::opText(OpId id, const OpSharding &choice) const {
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
std::string SubjectExplainer::factorText(const Op &op, FactorId factor) const {
  auto find = [&](const std::vector<sharding::TensorFactors> &tensors, const std::string &name) {
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t dim = 0; dim < tensors[i].size(); ++dim)
        if (std::find(tensors[i][dim].begin(), tensors[i][dim].end(), factor) !=
            tensors[i][dim].end())
          return "dimension " + std::to_string(dim) + " of " + name + " " + std::to_string(i);
    return std::string();
  };
  std::string text = find(op.rule.results, "result");
  return text.empty() ? find(op.rule.operands, "operand") : text;
}

/// Why tensor parallelism can't split a factor.
std::string SubjectExplainer::whyNot(OpId id, FactorId factor) const {
  const Op &op = problem.ops[id];
  const sharding::Factor &split = op.rule.factors[factor];
  std::string where = factorText(op, factor);
  if (factor == facts.batchFactor[id])
    return where + " is the batch, which data parallelism splits";
  if (split.kind == FactorKind::Whole)
    return where + " is needed whole";
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

Subject SubjectExplainer::explainOp(OpId id) {
  const Op &op = problem.ops[id];
  Subject subject{op.location, op.name, "", {}};
  for (ValueId result : op.results)
    subject.shape += (subject.shape.empty() ? "" : ", ") + shapeText(problem.values[result]);
  subject.ways.push_back({opText(id, plan.ops[id]), true, std::nullopt, ""});
  if (tensorAxes.empty())
    return subject;
  std::vector<OpSharding> legal =
      ShardingSolver(problem, facts, cluster, plan.degrees, solver).choicesOf(id);
  std::vector<bool> splits(op.rule.factors.size(), false);
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
    if (auto factor = static_cast<FactorId>(f); !splits[f] && op.rule.factors[f].size > 1)
      subject.ways.push_back({"split along " + factorText(op, factor), false, std::nullopt,
                              whyNot(id, factor)});
  return subject;
}

//===-- names -------------------------------------------------------------===//

Result<Subject> SubjectExplainer::run(const std::string &name) {
  std::vector<std::string> known;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    bool isNamed = argument.kind != ValueKind::Scalar && argument.kind != ValueKind::Accumulator;
    if (!isNamed || argument.name.empty())
      continue;
    if (argument.name == name)
      return explainArgument(value);
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
    return explainOp(found);
  std::string close = nearest(name, known);
  return Error{"--explain: the model has no tensor or node named '" + name + "'" +
                   (close.empty() ? "" : " (did you mean '" + close + "'?)"),
               2};
}

Result<Subject> explainSubject(const Problem &problem, const Plan &plan,
                               const Prediction &predicted, const Cluster &cluster,
                               const SolverOptions &solver, const std::string &name,
                               const Workspace *workspace) {
  if (!plan.degrees.groups.empty())
    return Error{"--explain: not implemented for plans whose stages have meshes of their own: " +
                     name, 2};
  return SubjectExplainer(problem, plan, predicted, cluster, solver, workspace).run(name);
}

} // namespace dtc::plan
