#include "dtc/Plan/Cost/ProductOverlap.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

/// Parts of a product whose result is summed up (`num_splits` of Transformer Engine's
/// method `pipeline`).
static constexpr double kParts = 4;

ProductOverlap::ProductOverlap(const Problem &problem, const ProblemFacts &facts,
                               const Plan &plan, const CostModel &model, const OpWork &work)
    : problem(problem), plan(plan), facts(facts), model(model), work(work) {
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op)
    if (problem.ops[op].backward && isProduct(problem.ops[op].forward))
      backwardOf[problem.ops[op].forward].push_back(op);
}

/// The products that make a value, or the terms of which it is the sum.
std::vector<OpId> ProductOverlap::makersOf(ValueId value) const {
  OpId producer = facts.producer[value];
  if (isProduct(producer))
    return {producer};
  std::vector<OpId> result;
  if (producer >= 0 && problem.ops[producer].kind == OpKind::GradientSum)
    for (ValueId term : problem.ops[producer].operands)
      if (OpId maker = facts.producer[term]; isProduct(maker))
        result.push_back(maker);
  return result;
}

/// The gradients of one kind that belong to the same forward products.
std::vector<OpId> ProductOverlap::gradientsBeside(const std::vector<OpId> &products,
                                                  BackwardKind kind) const {
  std::vector<OpId> result;
  for (OpId product : products)
    if (auto found = backwardOf.find(problem.ops[product].forward); found != backwardOf.end())
      for (OpId gradient : found->second)
        if (problem.ops[gradient].backward == kind)
          result.push_back(gradient);
  return result;
}

/// The products that read a value together with `reader`, in the same pass.
std::vector<OpId> ProductOverlap::readersBeside(ValueId value, OpId reader) const {
  std::vector<OpId> result;
  for (OpId other : facts.consumers[value])
    if (isProduct(other) && problem.ops[other].backward == problem.ops[reader].backward)
      result.push_back(other);
  return result;
}

/// Seconds that are left after a share of the products has hidden what it can.
double ProductOverlap::hide(double seconds, const AxisList &axes,
                            const std::vector<OpId> &products, double share) {
  OverlapSlowdown both = model.ringSlowdown(model.groupShape(axes, plan.mesh).level);
  double waiting = seconds * both.communication, hidden = 0;
  for (OpId product : products) {
    auto [found, isNew] = uses.try_emplace(product);
    ProductUse &use = found->second;
    if (isNew)
      use.seconds = use.left =
          model.opSeconds(work.work(product, plan.ops[product], plan.mesh));
    double free = std::max(0.0, use.left - (1 - share) * use.seconds);
    // While the product shares the device, it takes longer.
    double taken = std::min(waiting - hidden, free * both.compute);
    use.left -= taken / both.compute;
    hidden += taken;
  }
  if (hidden <= 0)
    return seconds;
  double slowed = hidden * (1 - 1 / both.compute);
  return std::min(seconds, (waiting - hidden) / both.communication + slowed);
}

double ProductOverlap::exposed(StepKind kind, const AxisList &axes, double seconds,
                               ValueId value, OpId reader) {
  const Software &software = model.getCluster().software;
  AxisList tensor = plan.mesh.ofDegree("tp");
  bool isTensor = std::all_of(axes.begin(), axes.end(), [&](sharding::AxisId axis) {
    return std::find(tensor.begin(), tensor.end(), axis) != tensor.end();
  });
  if (seconds <= 0 || !isTensor || reader < 0)
    return seconds;
  std::optional<BackwardKind> pass = problem.ops[reader].backward;
  if (kind == StepKind::AllGather && isProduct(reader)) {
    if (pass == BackwardKind::WeightGrad)
      return software.gathersAgain
                 ? hide(seconds, axes, gradientsBeside({reader}, BackwardKind::InputGrad), 1)
                 : seconds;
    auto ranks = double(plan.mesh.size(axes));
    return software.overlapsProducts
               ? hide(seconds, axes, readersBeside(value, reader), (ranks - 1) / ranks)
               : seconds;
  }
  if (kind != StepKind::AllReduce && kind != StepKind::ReduceScatter)
    return seconds;
  std::vector<OpId> makers = makersOf(value);
  if (makers.empty())
    return seconds;
  if (problem.ops[makers.front()].backward == BackwardKind::InputGrad)
    return software.asyncInputGradients
               ? hide(seconds, axes, gradientsBeside(makers, BackwardKind::WeightGrad), 1)
               : seconds;
  bool isInParts = software.overlapsProducts && kind == StepKind::ReduceScatter &&
                   !problem.ops[makers.front()].backward;
  return isInParts ? hide(seconds * (kParts - 1) / kParts, axes, makers,
                          (kParts - 1) / kParts) + seconds / kParts
                   : seconds;
}

} // namespace dtc::plan
