// What the ranks of a plan ask an allocator for beside activations.
#include "StageCosts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtc::plan {

/// Tensors of a forward pass that variables may hold beyond their last use. Fitted to
/// BigScience's runs on V100; Megatron-LM's function of attention and that of the layer,
/// which calls it, have about as many variables.
static constexpr size_t kVariables = 16;

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
  addCasts(runs, result);
  int64_t bucket = bucketBytes(runs);
  (overlaps() ? result.resident : result.norm).push_back(overlaps() ? 2 * bucket : bucket);
  result.resident.push_back(std::llround(model.reserve(0).workspace));
  return result;
}

/// Of the largest gradient, as far as it lies in the part that the rank updates.
void StageCosts::addCasts(const Runs &runs, RankRequests &to) const {
  if (!model.getCluster().software.castsGradients || to.gradients != GradientLife::Step)
    return;
  int64_t largest = 0;
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes) {
      if (!weights.trained || weights.elements(run) == 0)
        continue;
      int64_t whole = weights.parameters(run) / weights.elements(run); // bytes of an element
      for (int64_t bytes : weights.sizes(run))
        largest = std::max(largest, std::min(bytes / whole, weights.elements(run) /
                                                                mesh.size(weights.state)));
    }
  to.casts = {largest * byteSize(DType::F32), largest * byteSize(DType::F64)};
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

/// As one tensor.
static void add(std::vector<int64_t> &requests, int64_t bytes) { requests.push_back(bytes); }

/// As tensors in proportion to these.
static void add(std::vector<int64_t> &requests, int64_t bytes, const std::vector<int64_t> &sizes) {
  double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  for (int64_t size : sizes)
    requests.push_back(std::llround(double(bytes) * (double(size) / std::max(1.0, total))));
}

void StageCosts::addRequests(const WeightClass &weights, const StageRun &run,
                             RankRequests &to) const {
  const Software &software = model.getCluster().software;
  const std::vector<int64_t> all = weights.sizes(run);
  if (all.empty())
    return;
  bool flat = software.flattens && weights.trained && weights.storage.empty();
  int64_t parameters = weights.parameters(run), ways = mesh.size(weights.state);
  const std::vector<int64_t> &each = flat ? std::vector<int64_t>{1} : all;
  if (software.flattens && weights.trained) // the whole ones
    add(to.initial, parameters, all);
  add(to.resident, parameters / mesh.size(weights.storage), each);
  if (!weights.trained)
    return;
  if (to.gradients != GradientLife::Step)
    add(to.resident, weights.gradients(run) / mesh.size(weights.gradient));
  if (degrees.offload != Offload::None)
    return;
  if (reducesHalfSums(weights, run))
    add(to.norm, parameters);
  int64_t fp32 = weights.elements(run) * byteSize(DType::F32) / ways;
  add(to.states, weights.states(run) / ways, each);
  add(to.norm, software.normTemporaries * fp32, all);
  if (flat && to.gradients == GradientLife::Step)
    add(to.update, weights.gradients(run) / ways);
  for (int64_t left = weights.update(run) / ways; left > 0 && fp32 > 0; left -= fp32)
    add(to.update, std::min(left, fp32), each);
  int64_t elements = weights.elements(run), bucket = std::min(elements, software.bucketElements);
  if (flat && !weights.state.empty() && elements > 0) // gathered from all ranks, a bucket at a time
    add(to.after, std::llround(double(bucket) / double(elements) * double(parameters)));
}

} // namespace dtc::plan
