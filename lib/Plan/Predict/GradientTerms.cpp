// How long the terms of a weight's gradient are there, of which a program has one for each op that
// reads the weight, and which of them have no place of their own.
//
// Each stage adds up its own terms as soon as it has made the last of them, or each as it is made
// where there are more than a few (Sharding/TermsOfGradients.h). In the execution of the whole
// model the sum comes once, with the op that reads the weight first.
#include "dtc/Plan/Predict/RankExecution.h"

#include "dtc/Sharding/TermsOfGradients.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

/// Whether what it makes is added to what earlier microbatches left.
static bool accumulates(const Problem &problem, OpId id) {
  const Op &op = problem.ops[id];
  return op.kind == OpKind::GradientSum && std::ranges::any_of(op.operands, [&](ValueId operand) {
           return problem.values[operand].kind == ValueKind::Accumulator;
         });
}

/// Of a sum of terms, the result of the function that it is, or becomes by being accumulated; -1:
/// it isn't about a weight.
ValueId RankExecution::gradientOf(OpId sum) const {
  const ValueId made = problem.ops[sum].results[0];
  const std::vector<OpId> &readers = facts.consumers[made];
  const bool isAdded = readers.size() == 1 && accumulates(problem, readers[0]);
  const ValueId result = isAdded ? problem.ops[readers[0]].results[0] : made;
  const ValueId parameter = facts.isResult[result] ? facts.gradientOf[result] : -1;
  return parameter >= 0 && parameter < problem.arguments ? result : -1;
}

/// Whether each microbatch scatters a gradient, so that only parts of it are accumulated.
bool RankExecution::isScattered(ValueId gradient) const {
  const std::string &name = problem.values[facts.gradientOf[gradient]].name;
  return plan.degrees.zero > 1 &&
         std::ranges::any_of(plan.storage, [&](const ParameterStorage &storage) {
           return storage.parameter == name && plan.mesh.size(storage.gradientAxes) > 1;
         });
}

/// The stage that has a forward op, and the backward ops that belong to it, if that is known: a
/// folded model has no stages of its own.
std::optional<int> RankExecution::stageAt(OpId position) const {
  if (plan.degrees.pp == 1)
    return 0;
  if (plan.stages.empty() || plan.stages.back().lastOp != facts.lastForward)
    return std::nullopt;
  const auto after = std::ranges::upper_bound(plan.stages, position, {}, &Stage::firstOp);
  return std::max(0, static_cast<int>(after - plan.stages.begin()) - 1);
}

/// Of terms that one stage adds up, in the order in which they are made.
void RankExecution::holdTermsOf(OpId sum, std::vector<ValueId> terms, bool isOwn) {
  const ValueId gradient = gradientOf(sum);
  const bool parts = isScattered(gradient), adds = problem.ops[sum].results[0] != gradient;
  const bool inTurn = !parts && std::ssize(terms) > sharding::kMostSummedTogether;
  std::ranges::sort(terms, {}, [&](ValueId term) { return facts.producer[term]; });
  auto bufferOfTerm = [&](ValueId term) { return copies[term].front().buffers.front(); };
  const int last = bufferOfTerm(terms.back());
  const Op &made = problem.ops[facts.producer[terms.back()]];
  const bool isRows = made.kind == OpKind::Lookup && made.backward == BackwardKind::WeightGrad;
  if (parts && isRows && terms.size() == 1 && plan.degrees.pp > 1)
    return; // StageCalls places it
  // Terms of one stage are added up where the execution has the sum, once the stage has made all
  // its gradients of weights. Those of several are behind the last one.
  const std::optional<int> stage = stageAt(facts.position[facts.producer[terms.back()]]);
  auto isOfStage = [&](OpId op) { return op < 0 || stageAt(facts.position[op]) == stage; };
  const bool isAlone = isOwn && std::ranges::all_of(problem.ops[sum].operands, [&](ValueId term) {
                         return isOfStage(facts.producer[term]);
                       });
  int end = last;
  for (size_t step = steps.size(); isAlone && plan.degrees.pp > 1 && step-- > 0;)
    if (steps[step].pass == StepPass::WeightGrad && !steps[step].addsTerms &&
        !steps[step].collective && !steps[step].writes.empty() && isOfStage(steps[step].op)) {
      end = steps[step].writes.front();
      break;
    }
  const bool hasStep = isAlone && plan.degrees.pp == 1;
  for (ValueId term : terms)
    if (inTurn || !hasStep)
      buffers[bufferOfTerm(term)].until = inTurn ? bufferOfTerm(term) : end;
  if (inTurn && !adds)
    buffers[bufferOfTerm(terms.front())].persistent = true;
  // One kernel adds up the rows of a table's gradient and adds the sum to one other operand, or to
  // several that are no sum. Of half precision the sum is rounded by that kernel.
  const bool isHalf = byteSize(problem.values[terms.back()].type) < byteSize(DType::F32);
  const bool isJoined =
      isHalf ? !parts || terms.size() > 1 : inTurn || (terms.size() == 1 ? !parts : parts || !adds);
  if (isRows && isJoined && (plan.degrees.pp == 1 || terms.size() > 1))
    buffers[last].persistent = true;
}

/// `terms`: what a sum reads as it is, of ops.
void RankExecution::holdTerms(OpId sum, const std::vector<ValueId> &terms) {
  if (!hasPlaces() || gradientOf(sum) < 0)
    return;
  const std::optional<int> own = stageAt(facts.position[sum]);
  std::map<int, std::vector<ValueId>> byStage;
  for (ValueId term : terms) {
    const OpId maker = facts.producer[term];
    const std::optional<int> stage = maker >= 0 ? stageAt(facts.position[maker]) : std::nullopt;
    if (!own || !stage || problem.ops[maker].kind == OpKind::GradientSum ||
        facts.consumers[term].size() != 1 || copies[term].front().buffers.size() != 1)
      continue;
    byStage[*stage].push_back(term);
  }
  // One kernel adds terms to each other and to what earlier microbatches left, where that is.
  const ValueId made = problem.ops[sum].results[0], gradient = gradientOf(sum);
  if (!byStage.empty() && made != gradient && !isScattered(gradient))
    buffers[copies[made].front().buffers.front()].persistent = true;
  for (auto &[stage, ofStage] : byStage)
    holdTermsOf(sum, std::move(ofStage), stage == *own);
}

} // namespace dtc::plan
