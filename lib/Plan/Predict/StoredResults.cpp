// Where the results of an execution's ops lie: in those of operands or in copies of their own.
#include "dtc/Plan/Predict/RankExecution.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Plan/AttentionParts.h"
#include "dtc/Plan/Plan/Crossings.h"
#include "dtc/Plan/Plan/Materialization.h"
#include "dtc/Plan/Solve/Distinct.h"
#include "dtc/Schedule/Descriptor.h"

#include <algorithm>

namespace dtc::plan {

using sharding::operandSharding;
using sharding::resultSharding;
using sharding::TensorSharding;

/// Whether an op's result is a part of what it reads, or all of it in another order.
static bool isView(const Op &op) {
  return op.operands.size() == 1 && (op.kind == OpKind::View || op.kind == OpKind::Reindex);
}

/// What the stages of a plan send each other.
static void addMessages(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
                        std::vector<ValueId> &to) {
  const std::vector<int> parts = partsOfOps(problem, facts, [&](OpId position) {
    const auto after = std::ranges::upper_bound(plan.stages, position, {}, &Stage::firstOp);
    return std::max(0, static_cast<int>(after - plan.stages.begin()) - 1);
  });
  for (const Crossing &crossing : crossingsOf(problem, facts, parts))
    to.push_back(crossing.value);
}

/// Of rows that gradients of experts' weights read, those that an earlier pass makes.
static void addRowsOfPasses(const Problem &problem, const ProblemFacts &facts,
                            std::vector<ValueId> &to) {
  auto isView = [&](const Op &op) { return plan::isView(op) || op.groupedExperts >= 0; };
  for (const Op &op : problem.ops)
    if (op.isGroupedProduct() && op.backward == BackwardKind::WeightGrad)
      for (ValueId rows : op.operands) {
        OpId maker = facts.producer[rows];
        while (maker >= 0 && isView(problem.ops[maker]) && !problem.ops[maker].isGroupedProduct())
          maker = facts.producer[rows = problem.ops[maker].operands[0]];
        if (maker >= 0 && problem.ops[maker].backward == BackwardKind::InputGrad)
          to.push_back(rows);
      }
}

/// Experts of a rank of its own are computed by kernels that find rows where they are. Ranks that
/// share experts exchange rows, which lie in order then. What makes a value for another stage, or
/// for a later pass, isn't part of a kernel there. A folded model has no stages of its own.
void RankExecution::findStoredValues() {
  if (!hasPlaces())
    return;
  const bool hasRows = std::ranges::any_of(problem.ops, &Op::isGroupedProduct);
  const ExpertRows rows =
      hasRows && plan.degrees.ep == 1 ? ExpertRows::InPlace : ExpertRows::InOrder;
  std::vector<ValueId> anyway;
  if (plan.degrees.pp > 1 && !plan.stages.empty() &&
      plan.stages.back().lastOp == facts.lastForward) {
    addMessages(problem, facts, plan, anyway);
    if (schedule::describe(plan.degrees.schedule).splitsBackward())
      addRowsOfPasses(problem, facts, anyway);
  }
  if (rows == ExpertRows::InPlace || !anyway.empty())
    stored = findStored(problem, facts, rows, anyway);
}

bool RankExecution::exists(ValueId value) const {
  return stored.empty() ? work.exists(value) : stored[value];
}

/// Programs that run op by op make a new tensor for each result of all but the simplest ops.
bool RankExecution::writesInPlace(const Op &op) const {
  bool isLossGradient = op.kind == OpKind::Loss && op.backward;
  if (op.kind == OpKind::Elementwise || work.runsOpByOp())
    return op.kind == OpKind::Elementwise || (isLossGradient && isTakenApart(op.forward));
  return isLossGradient || op.kind == OpKind::Reduction || op.kind == OpKind::Normalization;
}

/// Attention of dtc's own programs on GPUs reads whole tensors, unless a library takes it by the
/// strides of a part. Any other part of a larger tensor is copied.
bool RankExecution::isCopiedPart(ValueId value, int64_t bytes, const std::vector<int> &from) const {
  if (from.size() != 1 || buffers[from[0]].bytes <= placedBytes(bytes) ||
      !model.isOwnProgram())
    return false;
  const std::vector<OpId> &readers = facts.consumers[value];
  return std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
    return problem.ops[reader].kind == OpKind::Attention &&
           (!isReadInPlace(problem, facts, reader, value) || gathersKeys(reader));
  });
}

/// Of a value and its views, those that the backward pass reads as they are made. What the forward
/// pass brings to another sharding is there in that one.
void RankExecution::addReadAgain(ValueId value, std::vector<ValueId> &to) const {
  const OpId producer = facts.producer[value];
  auto brought = [&](OpId reader, bool backward) {
    std::vector<TensorSharding> result;
    const Op &op = problem.ops[reader];
    for (size_t i = 0; op.backward.has_value() == backward && i < op.operands.size(); ++i)
      if (op.operands[i] == value && readsItself(reader, value))
        result.push_back(operandSharding(op.rule, plan.ops[reader], i));
    return result;
  };
  std::vector<TensorSharding> before;
  const std::vector<ValueId> &results = problem.ops[producer].results;
  const TensorSharding made =
      resultSharding(problem.ops[producer].rule, plan.ops[producer],
                     static_cast<size_t>(std::ranges::find(results, value) - results.begin()));
  for (OpId reader : facts.consumers[value])
    for (TensorSharding &sharding : brought(reader, false))
      before.push_back(std::move(sharding));
  for (OpId reader : facts.consumers[value]) {
    const Op &op = problem.ops[reader];
    for (const TensorSharding &sharding : brought(reader, true))
      if (sharding == made || plan.degrees.regather || std::ranges::count(before, sharding) == 0)
        to.push_back(value);
    if (!op.backward && isView(op))
      for (ValueId view : op.results)
        addReadAgain(view, to);
  }
}

/// What a call leaves to others are results of its function. Where these read parts of a tensor
/// alone, less than the whole, each is copied.
bool RankExecution::isKeptPart(ValueId value, int64_t bytes, const std::vector<int> &from) const {
  if (plan.degrees.pp == 1 || !hasPlaces() || from.size() != 1 || buffers[from[0]].persistent ||
      buffers[from[0]].bytes <= placedBytes(bytes))
    return false;
  ValueId whole = value;
  for (OpId view = facts.producer[value]; view >= 0 && isView(problem.ops[view]);
       view = facts.producer[whole])
    whole = problem.ops[view].operands[0];
  if (whole == value || problem.ops[facts.producer[value]].backward || facts.producer[whole] < 0 ||
      copies[whole].front().buffers != from)
    return false;
  std::vector<ValueId> again;
  addReadAgain(whole, again);
  keepDistinct(again);
  int64_t sum = 0;
  for (ValueId part : again)
    sum += problem.values[part].bytes();
  return std::ranges::binary_search(again, value) && sum < problem.values[whole].bytes();
}

/// Attention that is products and a softmax makes its gradients of scores that are masked already,
/// without what it returned. Steps of a ring read both.
bool RankExecution::readsItself(OpId id, ValueId operand) const {
  const Op &op = problem.ops[id];
  if (!op.backward || op.kind != OpKind::Attention || op.forward < 0 || !hasPlaces())
    return true;
  constexpr ptrdiff_t kOfProducts = 3; // queries, keys and values
  const Op &forward = problem.ops[op.forward];
  const ptrdiff_t at = std::ranges::find(forward.operands, operand) - forward.operands.begin();
  const bool isMask = at >= kOfProducts && at < std::ssize(forward.operands);
  if (!isMask && operand != forward.results[0])
    return true;
  return work.goesRound(id, plan.ops[id]) || (!op.decomposed && !keepsScores(id));
}

/// Of attention that dtc's own program computes as products and a softmax. Steps of a ring keep
/// nothing.
bool RankExecution::keepsScores(OpId id) const {
  return problem.ops[id].kind == OpKind::Attention && !work.goesRound(id, plan.ops[id]) &&
         isOwnDecomposed(model.device(), model.getCluster().software,
                         work.work(id, plan.ops[id], plan.mesh));
}

/// Attention whose queries or keys are gathered again for its gradients makes its scores of these.
bool RankExecution::makesScoresAgain(OpId id) const {
  const Op &op = problem.ops[id];
  const OpId forward = op.backward && op.forward >= 0 ? op.forward : id;
  const Op &of = problem.ops[forward];
  if (!plan.degrees.regather || !hasPlaces() || op.kind != OpKind::Attention ||
      work.goesRound(id, plan.ops[id]))
    return false;
  if ((keepsScores(forward) ? of.saved : work.savedBytes(forward)) < of.scratch)
    return false; // it keeps none
  auto isGathered = [&](size_t operand) {
    const TensorSharding sharding = operandSharding(of.rule, plan.ops[forward], operand);
    return std::ranges::any_of(copies[of.operands[operand]], [&](const Copy &copy) {
      return copy.gathered && copy.sharding == sharding;
    });
  };
  return isGathered(0) || isGathered(1);
}

/// Local bytes. The forward pass makes probabilities of the kept scores, in the operands' type. The
/// backward pass makes the scores' gradients, and rounds those and probabilities to that type,
/// unless the forward pass has kept these. No library needs its workspace then, so that of what is
/// reserved for it as much is free.
double RankExecution::scoreCopies(OpId id) const {
  const Op &op = problem.ops[id];
  const OpId forward = op.backward && op.forward >= 0 ? op.forward : id;
  const double scores = op.scratch * localShare(plan.ops[id], plan.mesh);
  const double share = double(byteSize(problem.values[op.operands[0]].type)) / 4;
  const bool keepsBoth = work.savedBytes(forward) > problem.ops[forward].saved;
  if (!op.backward)
    return keepsBoth ? 0 : scores * share;
  // Those in f32 are written in place.
  const double rounded = share < 1 ? (keepsBoth ? 1 : 2) * scores * share : 0;
  return scores + std::max(0.0, rounded - model.reserve(0).workspace);
}

/// What is written over until it is a result lies in the result's place from the start.
void RankExecution::placeAtHome(int result) {
  std::vector<int> reads(buffers.size(), 0); // by how many steps
  for (const ExecutionStep &step : steps)
    for (int buffer : step.reads)
      ++reads[buffer];
  auto isWrittenOver = [&](int buffer) {
    return !buffers[buffer].persistent && reads[buffer] == 1 &&
           buffers[buffer].bytes == buffers[result].bytes;
  };
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (std::find(step->writes.begin(), step->writes.end(), result) == step->writes.end())
      continue;
    auto before = std::find_if(step->reads.begin(), step->reads.end(), isWrittenOver);
    if (!step->inPlace || before == step->reads.end())
      return;
    result = *before;
    buffers[result].persistent = true;
  }
}

} // namespace dtc::plan
