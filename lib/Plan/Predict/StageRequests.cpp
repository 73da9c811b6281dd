// What the ranks of a plan ask an allocator for beside activations.
#include "PlacedPrograms.h"

#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Schedule/PassingParts.h"

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
  result.gradients = gradientLife();
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
  result.resident.push_back(residentBuckets(runs));
  result.norm.push_back(overlaps() ? 0 : bucketBytes(runs));
  result.update.push_back(passingStates(runs));
  result.resident.push_back(std::llround(model.reserve(0).workspace));
  result.resident.push_back(dataBytes(runs, true) + dataBytes(runs, false));
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
                                                                weights.ranks.state));
    }
  to.casts = {largest * byteSize(DType::F32), largest * byteSize(DType::F64)};
}

/// What the blocks of a unit gather and scatter, and what is beside them.
void StageCosts::addExchanges(int unit, RankRequests &to) const {
  const StageRun run(unit, unit + 1);
  double gathered = 0, scattered = 0, parts = pieces(WeightClass::Level::Only, run);
  for (const WeightClass &weights : classes) {
    gathered += gather(weights, run, /*backward=*/false).bytes;
    scattered += scatter(weights, run).bytes;
  }
  for (int i = 0; i < static_cast<int>(parts); ++i) {
    to.gathered.back().push_back(std::llround(gathered / parts));
    to.scattered.back().push_back(std::llround(scattered / parts));
  }
}

/// As one tensor.
static void add(std::vector<int64_t> &requests, int64_t bytes) {
  if (bytes > 0)
    requests.push_back(bytes);
}

/// As tensors in proportion to these.
static void add(std::vector<int64_t> &requests, int64_t bytes, const std::vector<int64_t> &sizes) {
  double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  for (int64_t size : sizes)
    add(requests, std::llround(double(bytes) * (double(size) / std::max(1.0, total))));
}

void StageCosts::addRequests(const WeightClass &weights, const StageRun &run,
                             RankRequests &to) const {
  const std::vector<int64_t> all = weights.sizes(run);
  if (all.empty())
    return;
  const std::vector<int64_t> &each = isFlat(weights) ? std::vector<int64_t>{1} : all;
  BetweenCalls between = betweenCalls(weights, run);
  add(to.initial, between.initial, all);
  add(to.resident, weights.parameters(run) / weights.ranks.storage, each);
  if (!weights.trained)
    return;
  if (to.gradients != GradientLife::Step)
    add(to.resident, weights.gradients(run) / weights.ranks.gradient);
  int64_t halfSums = reducesHalfSums(weights, run) ? weights.parameters(run) : 0;
  add(to.norm, halfSums);
  add(to.norm, between.norm - halfSums, all);
  if (degrees.offload == Offload::None) {
    int64_t ways = weights.ranks.state;
    add(to.states, weights.states(run) / ways, each);
    int64_t temporaries = weights.update(run) / ways;
    add(to.update, between.update - temporaries);
    int64_t fp32 = weights.elements(run) * byteSize(DType::F32) / ways;
    for (int64_t left = temporaries; left > 0 && fp32 > 0; left -= fp32)
      add(to.update, std::min(left, fp32), each);
  }
  add(to.after, between.after);
}

//===-- at the beginning and at the end of a step ---------------------------===//

GradientLife StageCosts::gradientLife() const {
  const Software &software = model.getCluster().software;
  return software.halfGradients && degrees.zero < 2 ? GradientLife::Step
         : software.keepsHalfGradients              ? GradientLife::Microbatch
                                                    : GradientLife::Added;
}

/// Whether the parameters are copied to one tensor.
bool StageCosts::isFlat(const WeightClass &weights) const {
  return model.getCluster().software.flattens && weights.trained && weights.storage.empty();
}

BetweenCalls StageCosts::betweenCalls(const WeightClass &weights, const StageRun &run) const {
  const Software &software = model.getCluster().software;
  BetweenCalls result;
  if (isFlat(weights) || (software.flattens && !weights.storage.empty()))
    result.initial = weights.parameters(run); // the whole ones
  if (!weights.trained)
    return result;
  int64_t ways = weights.ranks.state, elements = weights.elements(run);
  result.norm = software.normTemporaries * (elements * byteSize(DType::F32) / ways);
  if (reducesHalfSums(weights, run))
    result.norm += weights.parameters(run);
  if (degrees.offload == Offload::None) {
    result.update = weights.update(run) / ways;
    if (isFlat(weights) && gradientLife() == GradientLife::Step)
      result.update += weights.gradients(run) / ways;
  }
  // Gathered from all ranks, a bucket at a time.
  int64_t bucket = std::min(elements, software.bucketElements);
  if (isFlat(weights) && !weights.state.empty() && elements > 0)
    result.after =
        std::llround(double(bucket) / double(elements) * double(weights.parameters(run)));
  return result;
}

/// The parameters of a class that a run's units read; `parts` ascend by the first of their units.
static std::vector<const WeightClass::Tables::Part *>
partsWithin(const std::vector<WeightClass::Tables::Part> &parts, const StageRun &run) {
  auto before = [](int end) {
    return [end](const WeightClass::Tables::Part &part) { return part.units.front() < end; };
  };
  const auto first = std::partition_point(parts.begin(), parts.end(), before(run.begin));
  const auto last = std::partition_point(first, parts.end(), before(run.end));
  std::vector<const WeightClass::Tables::Part *> result;
  for (auto part = parts.begin(); part != first; ++part)
    if (part->units.back() >= run.begin && anyWithin(part->units, run.begin, run.end))
      result.push_back(&*part);
  for (auto part = first; part != last; ++part)
    result.push_back(&*part);
  return result;
}

namespace {

/// What an update has of offloaded states, what arrives for the next one, and what leaves of the
/// last (dtc-bring-from-host). Large tensors pass in parts, each of which is a turn. Such a turn
/// has copies of its part of the parameter and the gradient beside it.
class PassingTurns {
public:
  void add(int64_t states, int64_t besideStates) {
    constexpr int64_t kWhole = 3; // as many as are there at a time; further ones change nothing
    const int64_t whole = states > schedule::kPassingBytes ? states / schedule::kPassingBytes : 0;
    for (int64_t i = 0; i < std::min(whole, kWhole); ++i)
      turn(schedule::kPassingBytes, besideOf(schedule::kPassingBytes, states, besideStates));
    if (const int64_t rest = states - whole * schedule::kPassingBytes; rest > 0)
      turn(rest, whole > 0 ? besideOf(rest, states, besideStates) : 0);
  }

  int64_t most() {
    turn(0, 0); // while the last one is updated nothing arrives
    return largest;
  }

private:
  static int64_t besideOf(int64_t part, int64_t states, int64_t beside) {
    return std::llround(double(part) / double(states) * double(beside));
  }

  void turn(int64_t arrives, int64_t besideIt) {
    largest = std::max(largest, leaves + updated + besideUpdated + arrives);
    leaves = updated;
    updated = arrives;
    besideUpdated = besideIt;
  }

  int64_t leaves = 0, updated = 0, besideUpdated = 0, largest = 0;
};

} // namespace

/// Of offloaded states that pass through the device. Updates are in the order in which the forward
/// pass reads the parameters.
int64_t StageCosts::passingStates(std::span<const StageRun> runs) const {
  if (degrees.offload == Offload::None || model.getCluster().software.updatesOnHost)
    return 0;
  struct States {
    std::pair<int, ValueId> of; ///< where a parameter is read first, and which it is
    int64_t bytes, beside;      ///< of the states, and of the parameter and its gradient
  };
  std::vector<States> states;
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes)
      if (int64_t all = weights.parameters(run); all > 0) {
        const auto bytes = double(weights.states(run)),
                   beside = double(all + weights.gradients(run));
        for (const WeightClass::Tables::Part *part : partsWithin(weights.tables->parts, run)) {
          const double share = double(part->bytes) / double(all);
          states.push_back({{part->units.front(), part->parameter},
                            std::llround(share * bytes) / weights.ranks.state,
                            std::llround(share * beside) / weights.ranks.state});
        }
      }
  std::ranges::stable_sort(states, {}, &States::of);
  PassingTurns turns;
  for (size_t i = 0; i < states.size(); ++i) {
    if (i + 1 < states.size() && states[i].of == states[i + 1].of)
      continue; // of chunks that share it
    turns.add(states[i].bytes, states[i].beside);
  }
  return turns.most();
}

/// What dtc's own programs have of parameters whose update is split, and which are gathered after
/// it. A part of a new one takes its gradient's place if it has that size. For it, a part of the
/// old one is cut out, on a GPU for all updates of a kernel. Otherwise it is beside all others:
/// they are gathered beside the update, and waited for at its end.
int64_t StageCosts::splitUpdates(std::span<const StageRun> runs) const {
  int64_t all = 0, largest = 0;
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes) {
      const int64_t bytes = weights.parameters(run), ways = weights.ranks.state;
      if (!hasPlaces(model.getCluster().software) || !weights.trained || bytes == 0 || ways == 1 ||
          !weights.storage.empty())
        continue;
      if (weights.gradients(run) != bytes || model.device().multiprocessors > 0)
        all += bytes / ways;
      else
        largest = std::max(largest, std::ranges::max(weights.sizes(run)) / ways);
    }
  // An update calls no library, so that what is set aside for them is free.
  return std::max<int64_t>(0, all + largest - std::llround(model.reserve(0).workspace));
}

BetweenCalls StageCosts::betweenCalls(std::span<const StageRun> runs) const {
  BetweenCalls result;
  result.norm = overlaps() ? 0 : bucketBytes(runs);
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes)
      result += betweenCalls(weights, run);
  result.update += passingStates(runs) + splitUpdates(runs);
  if (result.initial == 0)
    return result;
  // The optimizer's states aren't there yet, nor are gradients that a backward pass makes.
  MemoryUse use = staticBytes(runs);
  int64_t made =
      gradientLife() == GradientLife::Step ? use.gradients - residentBuckets(runs) : 0;
  result.initial = std::max<int64_t>(0, result.initial - use.optimizer - made);
  return result;
}

} // namespace dtc::plan
