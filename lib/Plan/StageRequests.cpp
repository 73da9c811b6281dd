// What the ranks of a plan ask an allocator for beside activations.
#include "StageCosts.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

/// Tensors of a forward pass that variables may hold beyond their last use. Fitted to
/// BigScience's runs on V100; Megatron-LM's function of attention has about as many variables.
static constexpr size_t kVariables = 8;

RankRequests StageCosts::requests(const Runs &runs) const {
  const Software &software = model.getCluster().software;
  RankRequests result;
  result.gradients = software.halfGradients && degrees.zero < 2 ? GradientLife::Step
                     : software.keepsHalfGradients              ? GradientLife::Microbatch
                                                                : GradientLife::Added;
  result.updatesFirst = software.updatesFirst;
  result.held = software.compiled ? 0 : kVariables;
  for (const StageRun &run : runs) {
    for (const WeightClass &weights : classes)
      addRequests(weights, run, result);
    result.gathered.emplace_back();
    result.scattered.emplace_back();
    for (int unit = run.begin; unit < run.end; ++unit)
      addExchanges(unit, result);
  }
  int64_t bucket = bucketBytes(runs);
  (overlaps() ? result.resident : result.norm).push_back(overlaps() ? 2 * bucket : bucket);
  result.resident.push_back(std::llround(model.reserve(0).workspace));
  return result;
}

/// What the blocks of a unit gather and scatter, and what is beside them.
void StageCosts::addExchanges(int unit, RankRequests &to) const {
  const StageRun run(unit, unit + 1);
  double gathered = 0, scattered = 0, parts = pieces(WeightClass::Level::Only, run);
  for (const WeightClass &weights : classes) {
    gathered += gather(weights, run).bytes;
    scattered += scatter(weights, run).bytes;
  }
  for (int i = 0; i < static_cast<int>(parts); ++i) {
    to.gathered.back().push_back(std::llround(gathered / parts));
    to.scattered.back().push_back(std::llround(scattered / parts));
  }
}

/// As one tensor each, or one for each of the parameters.
static void add(std::vector<int64_t> &requests, int64_t bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    requests.push_back(bytes / count);
}

void StageCosts::addRequests(const WeightClass &weights, const StageRun &run,
                             RankRequests &to) const {
  const Software &software = model.getCluster().software;
  int64_t count = weights.count(run);
  if (count == 0)
    return;
  bool flat = software.flattens && weights.trained && weights.storage.empty();
  int64_t parameters = weights.parameters(run), ways = mesh.size(weights.state);
  int64_t each = flat ? 1 : count;
  if (software.flattens && weights.trained) // the whole ones
    add(to.initial, parameters, count);
  add(to.resident, parameters / mesh.size(weights.storage), each);
  if (!weights.trained)
    return;
  if (to.gradients != GradientLife::Step)
    add(to.resident, weights.gradients(run) / mesh.size(weights.gradient), 1);
  if (degrees.offload != Offload::None)
    return;
  int64_t fp32 = weights.elements(run) * byteSize(DType::F32) / ways;
  add(to.states, weights.states(run) / ways, each);
  add(to.norm, software.normTemporaries * fp32, count);
  if (flat && to.gradients == GradientLife::Step)
    add(to.update, weights.gradients(run) / ways, 1);
  for (int64_t left = weights.update(run) / ways; left > 0 && fp32 > 0; left -= fp32)
    add(to.update, std::min(left, fp32), each);
  int64_t elements = weights.elements(run), bucket = std::min(elements, software.bucketElements);
  if (flat && !weights.state.empty() && elements > 0) // gathered from all ranks, a bucket at a time
    add(to.after, std::llround(double(bucket) / double(elements) * double(parameters)), 1);
}

} // namespace dtc::plan
