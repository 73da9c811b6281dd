#include "dtc/Training/Passes.h"

using namespace mlir;

namespace dtc::training {
#define GEN_PASS_DEF_BUILDTRAINING
#include "dtc/Training/Passes.h.inc"

BuildTrainingOptions passOptions(const TrainOptions &options) {
  BuildTrainingOptions result;
  result.loss = options.loss;
  result.lossOutput = options.lossOutput;
  result.ignoreIndex = options.ignoreIndex;
  result.optimizer = options.optimizer;
  result.beta1 = options.beta1;
  result.beta2 = options.beta2;
  result.eps = options.eps;
  result.weightDecay = options.weightDecay;
  result.momentum = options.momentum;
  result.nesterov = options.nesterov;
  result.noDecay = options.noDecay.value_or("");
  result.clipGradNorm = options.clipGradNorm.value_or(result.clipGradNorm);
  result.precision = options.precision;
  result.lossScale = options.lossScale.initial;
  result.lossScaleGrowthInterval = options.lossScale.growthInterval;
  result.microbatches = options.numMicrobatches;
  result.classMultiple = options.classMultiple;
  result.hiddenWays = options.hidden.ways;
  result.hiddenMultiple = options.hidden.multiple;
  result.hiddenIsPriced = options.hidden.isPriced;
  result.hiddenOfSome = options.hidden.among.has_value();
  if (options.hidden.among)
    for (const auto &[name, dim] : *options.hidden.among)
      result.hiddenAmong.push_back(std::to_string(dim) + ":" + name);
  result.labelSmoothing = options.labelSmoothing;
  result.classWeights.assign(options.classWeights.begin(), options.classWeights.end());
  result.adapterRank = options.adapters.rank;
  result.adapterAlpha = options.adapters.alpha;
  result.adapterTargets = options.adapters.targets.value_or("");
  return result;
}

namespace {

struct BuildTraining : impl::BuildTrainingBase<BuildTraining> {
  using BuildTrainingBase::BuildTrainingBase;

  void runOnOperation() override {
    TrainOptions options;
    options.loss = loss;
    options.lossOutput = lossOutput;
    options.ignoreIndex = ignoreIndex;
    options.optimizer = optimizer;
    options.beta1 = beta1;
    options.beta2 = beta2;
    options.eps = eps;
    options.weightDecay = weightDecay;
    options.momentum = momentum;
    options.nesterov = nesterov;
    if (!noDecay.empty())
      options.noDecay = noDecay;
    if (clipGradNorm != std::numeric_limits<double>::infinity())
      options.clipGradNorm = clipGradNorm;
    options.precision = precision;
    options.lossScale.initial = lossScale;
    options.lossScale.growthInterval = lossScaleGrowthInterval;
    options.numMicrobatches = microbatches;
    options.classMultiple = classMultiple;
    options.hidden = {hiddenWays, hiddenMultiple, hiddenIsPriced, std::nullopt};
    if (hiddenOfSome)
      options.hidden.among.emplace();
    for (StringRef each : hiddenAmong) {
      auto [dim, name] = each.split(':');
      int64_t number = 0;
      if (!hiddenOfSome || dim.getAsInteger(10, number)) {
        getOperation().emitError("hidden-among isn't DIMENSION:NAME beside hidden-of-some: ")
            << each;
        return signalPassFailure();
      }
      options.hidden.among->emplace_back(name.str(), number);
    }
    options.labelSmoothing = labelSmoothing;
    options.classWeights.assign(classWeights.begin(), classWeights.end());
    options.adapters.rank = adapterRank;
    options.adapters.alpha = adapterAlpha;
    if (!adapterTargets.empty())
      options.adapters.targets = adapterTargets;
    if (failed(buildTraining(getOperation(), options)))
      signalPassFailure();
  }
};

} // namespace

} // namespace dtc::training
