#include "dtc/Report/PlanFacts.h"

#include "dtc/Plan/CostModel.h"

#include <map>

namespace dtc::report {

using plan::Degrees;
using plan::Prediction;

static plan::DType computeType(const plan::Problem &problem) {
  for (const plan::Op &op : problem.ops)
    if (op.flops > 0 && !op.operands.empty())
      return problem.values[op.operands.front()].type;
  return plan::DType::F32;
}

/// Mean of the devices that are used, flop/s.
static double peakOf(const PlanFacts &facts) {
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

Rates ratesOf(const Prediction &predicted, const Degrees &degrees, const PlanFacts &facts) {
  double samples = double(degrees.dp * degrees.ep * degrees.microBatch * degrees.numMicrobatches);
  double perDevice = predicted.stepSeconds > 0 ? 1 / (predicted.stepSeconds * facts.devices) : 0;
  double peak = peakOf(facts);
  Rates rates;
  rates.tokens = samples * double(facts.problem.tokensPerSample) * perDevice;
  rates.flops = predicted.modelFlops * perDevice;
  rates.mfu = peak > 0 ? rates.flops / peak : 0;
  return rates;
}

} // namespace dtc::report
