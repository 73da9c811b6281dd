#include "dtc/Report/PlanFacts.h"

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Report/Words.h"

#include <map>
#include <set>

namespace dtc::report {

using plan::Degrees;
using plan::Prediction;

static plan::DType computeType(const plan::Problem &problem) {
  for (const plan::Op &op : problem.ops)
    if (op.flops > 0 && op.kind != plan::OpKind::Lookup && !op.operands.empty())
      return problem.values[op.operands.front()].type;
  return plan::DType::F32;
}

/// Mean of the devices that are used, flop/s. 0 for processors: what they do at most isn't known,
/// and what was measured of them isn't their most.
static double peakOf(const PlanFacts &facts) {
  if (facts.cluster.sharedMemory)
    return 0;
  plan::DType type = computeType(facts.problem);
  if (facts.cluster.others.empty())
    return plan::CostModel(facts.cluster, facts.devices).peakFlops(type);
  std::map<std::string, double> peaks; // by type of device
  double sum = 0;
  for (int64_t id = 0; id < facts.devices; ++id) {
    auto [peak, isNew] = peaks.try_emplace(facts.cluster.deviceAt(id).name, 0.0);
    if (isNew)
      peak->second = plan::CostModel(facts.cluster, facts.devices, {id, 1}).peakFlops(type);
    sum += peak->second;
  }
  return sum / double(facts.devices);
}

bool isRough(const PlanFacts &facts) {
  return facts.cluster.sharedMemory && facts.cluster.contractions.empty();
}

/// The arguments that forward ops of a group's stages read.
static std::set<int64_t> readBy(const PlanFacts &facts, size_t group) {
  const plan::Plan &plan = facts.search.plan;
  const schedule::Placement placement = placementOf(plan.degrees);
  std::set<int64_t> read;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (groupOf(plan.degrees, placement.rank(int64_t(stage))) != group)
      continue;
    for (int64_t op = plan.stages[stage].firstOp; op <= plan.stages[stage].lastOp; ++op)
      for (plan::ValueId value : facts.problem.ops[op].operands)
        if (value < facts.problem.arguments)
          read.insert(value);
  }
  return read;
}

std::vector<MeshPart> meshParts(const PlanFacts &facts) {
  const plan::Plan &plan = facts.search.plan;
  if (plan.degrees.groups.empty())
    return {{"", {std::shared_ptr<const plan::Plan>(), &plan}}};
  std::vector<MeshPart> parts;
  for (size_t group = 0; group < plan.degrees.groups.size(); ++group) {
    auto own = std::make_shared<plan::Plan>(inGroup(plan, group));
    std::set<int64_t> read = readBy(facts, group);
    std::erase_if(own->arguments, [&](const auto &entry) { return !read.contains(entry.first); });
    parts.push_back({groupRanksText(plan.degrees, group), std::move(own)});
  }
  return parts;
}

Rates ratesOf(const Prediction &predicted, const Degrees &degrees, const PlanFacts &facts) {
  double all = double(degrees.dp * degrees.ep * degrees.microBatch * degrees.numMicrobatches);
  double own = all - double(facts.paddedSamples);
  double perDevice = predicted.stepSeconds > 0 ? 1 / (predicted.stepSeconds * facts.devices) : 0;
  double peak = peakOf(facts);
  Rates rates;
  rates.tokens = own * double(facts.problem.tokensPerSample) * perDevice;
  rates.flops = predicted.modelFlops * own / all * perDevice;
  rates.padding = (predicted.paddingFlops + predicted.modelFlops * (1 - own / all)) * perDevice;
  rates.mfu = peak > 0 ? rates.flops / peak : 0;
  return rates;
}

} // namespace dtc::report
