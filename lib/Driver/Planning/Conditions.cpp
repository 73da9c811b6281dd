#include "Conditions.h"

#include "dtc/Driver/FlagWords.h"

#include <algorithm>

namespace dtc::driver {

using report::Condition;

static Condition batchOf(const Request &request, const Planned &planned) {
  Condition batch{"global-batch",
                  std::to_string(planned.problem.globalBatch() - planned.paddedSamples)};
  if (request.globalBatch)
    return batch;
  batch.isAssumed = true;
  const int64_t own = planned.model.fileBatch,
                times = planned.problem.globalBatch() / std::max<int64_t>(own, 1);
  const std::string file = request.options.import.shapes.empty() ? "the file's " : "the model's ";
  if (own <= 0)
    batch.reason = "the file leaves it open";
  else
    batch.reason =
        (times == 1 ? "" : std::to_string(times) + " times ") + file + std::to_string(own);
  return batch;
}

static std::string clusterName(const Request &request) {
  bool isMeasured = request.cluster.sharedMemory && !request.cluster.contractions.empty();
  bool isAsked = request.options.given.contains("--cluster");
  return request.options.cluster + (isMeasured && !isAsked ? " as measured" : "");
}

std::vector<Condition> conditionsOf(const Request &request, const Planned &planned) {
  const Options &options = request.options;
  auto isAssumed = [&](const char *flag) { return !options.given.contains(flag); };
  std::vector<Condition> conditions = {
      {"precision", wordOf(kPrecisions, options.train.precision), isAssumed("--precision")},
      batchOf(request, planned)};
  if (planned.problem.tokensPerSample > 0)
    conditions.push_back({"sequence", std::to_string(planned.problem.tokensPerSample)});
  conditions.push_back({"loss", options.loss, isAssumed("--loss")});
  if (options.train.loss != training::LossKind::None)
    conditions.push_back(
        {"optimizer", wordOf(kOptimizers, options.train.optimizer), isAssumed("--optimizer")});
  conditions.push_back({"cluster", clusterName(request), isAssumed("--cluster")});
  if (request.preset)
    conditions.push_back({"program", request.preset->name});
  return conditions;
}

} // namespace dtc::driver
