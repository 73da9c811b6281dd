#include "PlacedPrograms.h"

#include "dtc/Plan/Predict/RankExecution.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Plan/AttentionParts.h"
#include "dtc/Plan/Plan/Flow.h"
#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>
#include <map>
#include <ranges>

namespace dtc::plan {

using sharding::OpSharding;
using sharding::ReshardStep;
using sharding::StepKind;
using sharding::TensorSharding;

RankExecution::RankExecution(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
                             const CostModel &model, const Workspace *workspace)
    : problem(problem), facts(facts), plan(plan), model(model), workspace(workspace),
      work(problem, facts, model), overlap(problem, facts, plan, model, work),
      sharedCopies(std::make_shared<std::vector<std::vector<Copy>>>(problem.values.size())),
      copies(*sharedCopies) {
  steps.reserve(problem.ops.size() + problem.ops.size() / 4); // with some communication
  buffers.reserve(problem.values.size());
  addArguments();
  findStoredValues();
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()) && error.empty(); ++op) {
    if (problem.ops[op].kind == OpKind::GradientSum)
      runSum(op);
    else
      runOp(op);
  }
  if (error.empty())
    finish();
}

bool RankExecution::hasPlaces() const { return plan::hasPlaces(model.getCluster().software); }

void RankExecution::fail(OpId op, const std::string &message) {
  if (!error.empty())
    return;
  error = message;
  errorOp = op;
}

ExecutionStep RankExecution::stepOf(OpId id) const {
  ExecutionStep step;
  step.op = id;
  if (id < 0)
    return step;
  const Op &op = problem.ops[id];
  step.position = facts.position[id];
  bool accumulates = op.kind == OpKind::GradientSum && !op.backward;
  if (op.backward == BackwardKind::WeightGrad || accumulates)
    step.pass = StepPass::WeightGrad;
  else if (op.backward)
    step.pass = StepPass::InputGrad;
  return step;
}

int RankExecution::addBuffer(int64_t bytes) {
  buffers.push_back({placedBytes(bytes), false});
  return static_cast<int>(buffers.size()) - 1;
}

void RankExecution::make(ValueId value, TensorSharding sharding, std::vector<int> in) {
  copies[value].clear();
  copies[value].push_back({std::move(sharding), std::move(in)});
}

void RankExecution::addArguments() {
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const TensorSharding &sharding = plan.arguments.at(value);
    int buffer = addBuffer(localBytes(problem.values[value], sharding, plan.mesh));
    buffers[buffer].persistent = true;
    make(value, sharding, {buffer});
  }
}

/// Appends the collectives that bring a copy to another sharding.
RankExecution::Copy RankExecution::reshard(ValueId id, const Copy &from, const TensorSharding &to,
                                   OpId reader) {
  const Value &value = problem.values[id];
  bool isStored = exists(id);
  auto list = sharding::reshard(from.sharding, to, plan.mesh);
  if (!list) {
    fail(reader,
         "cannot bring a tensor from " + from.sharding.str(plan.mesh) + " to " + to.str(plan.mesh));
    return {to, from.buffers};
  }
  Copy now = from;
  for (const ReshardStep &step : *list) {
    ExecutionStep run = stepOf(reader);
    run.collective = step.kind;
    run.axes = step.axes;
    run.bytes =
        sharding::stepBytes(step, now.sharding, value.shape, byteSize(value.type), plan.mesh);
    double alone = model.collectiveSeconds(step.kind, step.axes, double(run.bytes), plan.mesh);
    run.seconds = overlap.exposed(step.kind, step.axes, alone, id, reader);
    run.hostSeconds = model.hostSeconds(1);
    run.inPlace = step.kind == StepKind::AllReduce;
    run.reads = now.buffers;
    // A part of what isn't stored is computed in its place.
    if (step.kind != StepKind::Slice || isStored)
      now.buffers = {addBuffer(localBytes(value, step.after, plan.mesh))};
    now.sharding = step.after;
    run.writes = now.buffers;
    steps.push_back(std::move(run));
  }
  return now;
}

/// The second one says that a buffer is shared. All of them would double with each op of a chain
/// that reads its last value twice.
static std::vector<int> atMostTwice(const std::vector<int> &buffers) {
  std::vector<int> sorted = buffers;
  std::sort(sorted.begin(), sorted.end());
  auto isThird = [&](size_t i) { return sorted[i] == sorted[i - 2]; };
  if (std::ranges::none_of(std::views::iota(size_t(2), std::max(size_t(2), sorted.size())),
                           isThird))
    return buffers;
  std::map<int, int> times;
  std::vector<int> kept;
  for (int buffer : buffers)
    if (++times[buffer] <= 2)
      kept.push_back(buffer);
  return kept;
}

/// The choice under which an op that only repeats its operand along new dimensions makes a result
/// of this sharding; nullopt where there is none. Rather than brought to it, such a result is
/// repeated of that part of the operand (Partition/LocalShards.cpp).
static std::optional<OpSharding> choiceToRepeat(const Problem &problem, OpId id,
                                                const TensorSharding &sharding) {
  if (id < 0 || problem.ops[id].kind != OpKind::Reindex || problem.ops[id].operands.size() != 1)
    return std::nullopt;
  const sharding::ShardingRule &rule = problem.ops[id].rule;
  const sharding::TensorFactors &from = rule.operands[0], &to = rule.results[0];
  bool repeats =
      from.size() < to.size() &&
      std::ranges::all_of(
          from,
          [&](const auto &dim) { return dim.size() == 1 && std::ranges::count(to, dim) == 1; });
  if (!repeats)
    return std::nullopt;
  OpSharding choice{std::vector<sharding::AxisList>(rule.factors.size()), {}};
  for (size_t dim = 0; dim < sharding.dims.size(); ++dim)
    if (to[dim].size() == 1)
      choice.factors[to[dim][0]] = sharding.dims[dim];
  return resultSharding(rule, choice, 0) == sharding ? std::optional(choice) : std::nullopt;
}

/// The copy of a value in a sharding; made on first use, from then on shared.
/// Where a plan or software keeps parts alone, the backward pass gathers them once more.
RankExecution::Copy &RankExecution::bring(ValueId value, const TensorSharding &sharding,
                                          OpId reader) {
  std::vector<Copy> &known = copies[value];
  bool backward = reader >= 0 && problem.ops[reader].backward.has_value();
  bool again = backward && (plan.degrees.regather || model.getCluster().software.gathersAgain);
  const auto part = keptParts.find(value);
  const bool isKept = backward && part != keptParts.end();
  if (isKept && part->second.sharding == sharding)
    return part->second;
  for (Copy &copy : known)
    if (copy.sharding == sharding && !(again && copy.gathered))
      return copy;
  auto isThere = [&](const Copy &copy) { return copy.sharding == sharding; };
  const OpId producer = facts.producer[value];
  if (std::optional<OpSharding> choice = choiceToRepeat(problem, producer, sharding);
      choice && hasPlaces() && std::ranges::none_of(known, isThere)) {
    const ValueId repeated = problem.ops[producer].operands[0];
    Copy made = bring(repeated, operandSharding(problem.ops[producer].rule, *choice, 0), reader);
    made = {sharding, atMostTwice(made.buffers)};
    if (exists(value)) {
      ExecutionStep run = stepOf(reader);
      const Computing computing = work.computing(producer, *choice, plan.mesh);
      run.seconds = computing.seconds;
      run.hostSeconds = model.hostSeconds(computing.kernels);
      run.reads = made.buffers;
      made.buffers = {addBuffer(localBytes(problem.values[value], sharding, plan.mesh))};
      run.writes = made.buffers;
      steps.push_back(std::move(run));
    }
    known.push_back(std::move(made));
    return known.back();
  }
  size_t first = steps.size();
  Copy made = reshard(value, isKept ? part->second : known[0], sharding, reader);
  for (size_t i = first; i < steps.size(); ++i)
    made.gathered |= !backward && steps[i].collective == StepKind::AllGather;
  known.push_back(std::move(made));
  return known.back();
}

void RankExecution::addRounds(OpId id) {
  for (const RoundUse &round : work.rounds(id, plan.ops[id], plan.mesh)) {
    ExecutionStep run = stepOf(id);
    run.collective = StepKind::AllReduce;
    run.axes = round.axes;
    run.bytes = round.bytes;
    run.seconds = model.collectiveSeconds(StepKind::AllReduce, round.axes, double(round.bytes),
                                          plan.mesh);
    run.hostSeconds = model.hostSeconds(1);
    steps.push_back(std::move(run));
  }
}

/// Copies of weights that are kept in integers, in the type in which an op reads them.
int64_t RankExecution::unpackedBytes(OpId id) const {
  const Op &op = problem.ops[id];
  int64_t bytes = 0;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (const Value &value = problem.values[op.operands[i]]; value.storedBits > 0)
      bytes += localBytes(value, sharding::operandSharding(op.rule, plan.ops[id], i), plan.mesh);
  return bytes;
}

/// What is passed on between an op's steps.
void RankExecution::addRing(OpId id) {
  for (const RingUse &use : work.ring(id, plan.ops[id], plan.mesh))
    for (int64_t time = 0; time < use.times; ++time) {
      ExecutionStep run = stepOf(id);
      run.collective = StepKind::Permute;
      run.axes = use.axes;
      run.bytes = use.bytes;
      run.seconds = use.seconds / double(use.times);
      run.hostSeconds = model.hostSeconds(1);
      steps.push_back(std::move(run));
    }
}

/// The mask of elements that a program drops before a residual sum, a byte each,
/// kept for the backward pass of what made them.
void RankExecution::addMask(OpId id, ExecutionStep &step) {
  OpId dropped = work.dropsOutputOf(id);
  if (dropped < 0 || saved.count(dropped))
    return;
  const TensorSharding &sharding = copies[problem.ops[id].results[0]].front().sharding;
  const Value &value = problem.values[problem.ops[id].results[0]];
  saved[dropped] = addBuffer(localBytes(value, sharding, plan.mesh) / byteSize(value.type));
  step.writes.push_back(saved[dropped]);
}

/// Whether a dimension that the op reduces inside is split.
bool RankExecution::isTakenApart(OpId id) const {
  const Op &op = problem.ops[id];
  for (size_t factor = 0; factor < op.rule->factors.size(); ++factor)
    if (op.rule->factors[factor].kind == sharding::FactorKind::Rounds &&
        plan.mesh.size(plan.ops[id].factors[factor]) > 1)
      return true;
  return false;
}

bool RankExecution::isMeasured(OpId id) const {
  OpKind kind = problem.ops[id].kind;
  bool isLibrary = kind == OpKind::Contraction || kind == OpKind::Attention;
  return workspace && isLibrary && !gathersKeys(id) &&
         (!isTakenApart(id) || work.goesRound(id, plan.ops[id]));
}

/// Measured alone, such attention would be one kernel.
bool RankExecution::gathersKeys(OpId id) const {
  return problem.ops[id].causal && isOwnAttention(model.device(), model.getCluster().software) &&
         isGathered(work.work(id, plan.ops[id], plan.mesh));
}

/// The gradient of a table of half precision is summed up in f32 (Kernels/Simplify.cpp), and then
/// rounded.
static double wideSum(const Problem &problem, OpId id, const Plan &plan) {
  const Op &op = problem.ops[id];
  if (op.kind != OpKind::Lookup || op.backward != BackwardKind::WeightGrad)
    return 0;
  const Value &sum = problem.values[op.results[0]];
  if (sum.type != DType::BF16 && sum.type != DType::F16)
    return 0;
  const TensorSharding sharding = sharding::resultSharding(op.rule, plan.ops[id], 0);
  return double(localBytes(sum, sharding, plan.mesh)) * 4 / double(byteSize(sum.type));
}

/// Local bytes inside an op. A library's workspace is reserved already, up to a size.
double RankExecution::ownScratch(OpId id) const {
  const double library = work.workspaceBytes(id, plan.ops[id], plan.mesh);
  return work.scratchBytes(id) * localShare(plan.ops[id], plan.mesh) +
         std::max(0.0, library - model.reserve(0).workspace) +
         (hasPlaces() ? wideSum(problem, id, plan) : 0);
}

int64_t RankExecution::workspaceBytes(OpId id, OpPlaces places) const {
  const Op &op = problem.ops[id];
  const OpSharding &choice = plan.ops[id];
  Shapes operands, results;
  for (size_t i = 0; i < op.operands.size(); ++i)
    operands.push_back(sharding::operandSharding(op.rule, choice, i)
                           .localShape(problem.values[op.operands[i]].shape, plan.mesh));
  for (size_t i = 0; i < op.results.size(); ++i)
    results.push_back(sharding::resultSharding(op.rule, choice, i)
                          .localShape(problem.values[op.results[i]].shape, plan.mesh));
  // Steps of a ring share nothing, and the next one reads the same queries.
  if (work.goesRound(id, choice)) {
    places.spent.assign(places.spent.size(), false);
    return workspace->bytes(id, operands, results, places);
  }
  // Alone, it makes for itself what its two passes share.
  double kept = op.forward >= 0 ? work.savedBytes(op.forward) * localShare(choice, plan.mesh) : 0;
  return workspace->bytes(id, operands, results, places) - static_cast<int64_t>(kept);
}

/// What a chain of sums reads is counted at each of them. A value that is computed from more
/// buffers is taken for stored, as the work would be the square of the chain's length.
static constexpr std::ptrdiff_t kMostFused = 512;

void RankExecution::runOp(OpId id) {
  const Op &op = problem.ops[id];
  const OpSharding &choice = plan.ops[id];
  ExecutionStep run = stepOf(id);
  run.inPlace = writesInPlace(op);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Copy &copy = bring(op.operands[i], sharding::operandSharding(op.rule, choice, i), id);
    const bool reads = readsItself(id, op.operands[i]);
    if (isMeasured(id))
      run.operandReads.push_back(reads && copy.buffers.size() == 1 ? int(run.reads.size()) : -1);
    if (reads)
      run.reads.insert(run.reads.end(), copy.buffers.begin(), copy.buffers.end());
  }
  addRounds(id);
  addRing(id);
  const Computing computing = work.computing(id, choice, plan.mesh);
  run.seconds = computing.seconds;
  run.hostSeconds = model.hostSeconds(computing.kernels);
  for (size_t i = 0; i < op.results.size(); ++i) {
    ValueId value = op.results[i];
    TensorSharding sharding = sharding::resultSharding(op.rule, choice, i);
    int64_t bytes = localBytes(problem.values[value], sharding, plan.mesh);
    bool isFused = !exists(value) && std::ssize(run.reads) <= kMostFused;
    bool alias = ((op.kind == OpKind::View || isFused) && !isCopiedPart(value, bytes, run.reads)) ||
                 (joinsInPlace(problem, facts, id) && model.isOwnProgram());
    const bool isPart = alias && isKeptPart(value, bytes, run.reads);
    if (!alias || isPart)
      run.writes.push_back(addBuffer(bytes));
    if (isPart) {
      buffers.back().isPart = true;
      keptParts[value] = {sharding, {run.writes.back()}};
    }
    // A fused value is its operands until the kernel that ends the chain.
    make(value, std::move(sharding),
         alias ? atMostTwice(run.reads) : std::vector<int>{run.writes.back()});
  }
  double share = localShare(choice, plan.mesh), kept = work.savedBytes(id),
         scratch = isMeasured(id) ? 0 : ownScratch(id);
  if (work.goesRound(id, choice)) { // its gradients compute the scores of each step again
    scratch += isMeasured(id) ? 0 : work.savedBytes(op.forward) * share;
    scratch += double(work.ringBytes(id, choice, plan.mesh));
    kept = 0;
  }
  if (keepsScores(id)) {
    kept = std::max(work.savedBytes(id), op.saved);
    scratch = isMeasured(id) ? 0 : scoreCopies(id);
  }
  scratch += unpackedBytes(id) + (op.backward && makesScoresAgain(id) ? op.scratch * share : 0);
  if (scratch > 0)
    run.writes.push_back(addBuffer(static_cast<int64_t>(scratch)));
  if (double all = op.backward || !makesScoresAgain(id) ? kept : op.saved - op.scratch; all > 0) {
    saved[id] = addBuffer(static_cast<int64_t>(all * share));
    run.writes.push_back(saved[id]);
    run.saved = saved[id];
  }
  addMask(id, run);
  if (auto it = saved.find(op.forward); op.backward && it != saved.end())
    run.reads.push_back(it->second);
  steps.push_back(std::move(run));
}

/// Terms laid out alike are added first and brought to the sum's sharding at once. What it
/// takes to add them to earlier microbatches' is the step's (`StageCosts::accumulation`).
void RankExecution::runSum(OpId id) {
  const Op &op = problem.ops[id];
  TensorSharding target = sharding::resultSharding(op.rule, plan.ops[id], 0);
  const Value &value = problem.values[op.results[0]];
  ExecutionStep total = stepOf(id);
  total.inPlace = true;
  std::vector<bool> done(op.operands.size(), false);
  std::vector<ValueId> asTheyAre;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (done[i])
      continue;
    const Copy &first = copies[op.operands[i]][0];
    std::vector<int> together;
    size_t count = 0;
    for (size_t j = i; j < op.operands.size(); ++j)
      if (const Copy &copy = copies[op.operands[j]][0]; copy.sharding == first.sharding) {
        done[j] = true;
        ++count;
        if (copy.sharding == target)
          asTheyAre.push_back(op.operands[j]);
        together.insert(together.end(), copy.buffers.begin(), copy.buffers.end());
      }
    if (first.sharding == target) {
      total.reads.insert(total.reads.end(), together.begin(), together.end());
    } else if (count == 1) {
      const Copy &copy = bring(op.operands[i], target, id);
      total.reads.insert(total.reads.end(), copy.buffers.begin(), copy.buffers.end());
    } else {
      Copy sum = reshard(op.results[0], {first.sharding, together}, target, id);
      total.reads.insert(total.reads.end(), sum.buffers.begin(), sum.buffers.end());
    }
  }
  int64_t bytes = localBytes(value, target, plan.mesh);
  auto terms = static_cast<size_t>(
      std::count_if(op.operands.begin(), op.operands.end(), [&](ValueId value) {
        return problem.values[value].kind != ValueKind::Accumulator;
      }));
  if (terms > 1) {
    total.seconds = work.sumSeconds(id, bytes);
    total.hostSeconds = model.hostSeconds(1);
  }
  total.writes = {addBuffer(bytes)};
  make(op.results[0], std::move(target), total.writes);
  holdTerms(id, asTheyAre);
  total.addsTerms = true;
  steps.push_back(std::move(total));
}

size_t RankExecution::firstLeaving() const {
  size_t first = steps.size();
  while (first > 0 && steps[first - 1].collective)
    --first;
  return first;
}

void RankExecution::finish() {
  for (const FunctionResult &result : problem.results) {
    OpId producer = facts.producer[result.value];
    TensorSharding target = leavingSharding(result, shardingOf(result.value), facts, plan);
    ValueId of = facts.gradientOf[result.value];
    if (result.kind == ResultKind::Gradient && of >= 0 && of < problem.arguments) {
      sharding::AxisList axes;
      for (const sharding::Partial &partial : target.partial)
        axes.push_back(partial.axis);
      if (!axes.empty())
        pendingGradients.push_back(
            {of, axes, localBytes(problem.values[result.value], target, plan.mesh)});
    }
    // What is returned has its own place for the whole step.
    for (int buffer : bring(result.value, target, producer).buffers) {
      if (result.kind == ResultKind::Gradient && of >= 0)
        gradientBuffers.emplace_back(of, buffer);
      if (result.kind == ResultKind::Output && !buffers[buffer].persistent)
        outputBytes += buffers[buffer].bytes;
      buffers[buffer].persistent = true;
      const bool isAdded =
          producer >= 0 && model.isOwnProgram() && isAddedByCall(problem, facts, producer) &&
          shardingOf(problem.ops[producer].operands[1]) == shardingOf(result.value);
      if (result.kind == ResultKind::Output ||
          (result.kind == ResultKind::Gradient && (sumsTermsAlone(producer) || isAdded)))
        placeAtHome(buffer);
    }
  }
}

/// Whether an op sums gradients, and not what earlier microbatches left with them.
bool RankExecution::sumsTermsAlone(OpId id) const {
  return id >= 0 && problem.ops[id].kind == OpKind::GradientSum &&
         std::none_of(problem.ops[id].operands.begin(), problem.ops[id].operands.end(),
                      [&](ValueId operand) { return operand < problem.arguments; });
}

} // namespace dtc::plan
