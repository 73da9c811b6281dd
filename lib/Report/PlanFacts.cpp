#include "dtc/Report/PlanFacts.h"

#include "dtc/Plan/CostModel.h"

namespace dtc::report {

using plan::Degrees;
using plan::Prediction;

static plan::DType computeType(const plan::Problem &problem) {
  for (const plan::Op &op : problem.ops)
    if (op.flops > 0 && !op.operands.empty())
      return problem.values[op.operands.front()].type;
  return plan::DType::F32;
}

Rates ratesOf(const Prediction &predicted, const Degrees &degrees, const PlanFacts &facts) {
  double samples = double(degrees.dp * degrees.ep * degrees.microBatch * degrees.numMicrobatches);
  double perDevice = predicted.stepSeconds > 0 ? 1 / (predicted.stepSeconds * facts.devices) : 0;
  double peak = plan::CostModel(facts.cluster, facts.devices).peakFlops(computeType(facts.problem));
  Rates rates;
  rates.tokens = samples * double(facts.problem.tokensPerSample) * perDevice;
  rates.flops = predicted.modelFlops * perDevice;
  rates.mfu = peak > 0 ? rates.flops / peak : 0;
  return rates;
}

} // namespace dtc::report
