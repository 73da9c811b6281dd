#include "dtc/Plan/Explain/Compare.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

static StepParts subtract(const StepParts &plan, double scale, const StepParts &other) {
  StepParts result;
  for (auto part : {&StepParts::compute, &StepParts::recompute, &StepParts::update,
                    &StepParts::bubble})
    result.*part = scale * (plan.*part) - other.*part;
  std::map<std::string, double> exposed;
  for (const auto &[axis, seconds] : plan.exposed)
    exposed[axis] += scale * seconds;
  for (const auto &[axis, seconds] : other.exposed)
    exposed[axis] -= seconds;
  result.exposed.assign(exposed.begin(), exposed.end());
  return result;
}

static MemoryUse subtract(const MemoryUse &plan, const MemoryUse &other) {
  MemoryUse result;
  for (auto part : {&MemoryUse::parameters, &MemoryUse::gradients, &MemoryUse::optimizer,
                    &MemoryUse::data, &MemoryUse::activations, &MemoryUse::reserved,
                    &MemoryUse::workspace, &MemoryUse::cached})
    result.*part = plan.*part - other.*part;
  return result;
}

Difference differenceOf(const Prediction &plan, int64_t samples, const Prediction &other,
                        int64_t otherSamples) {
  double scale = samples > 0 ? double(otherSamples) / double(samples) : 1;
  Difference result;
  result.seconds = scale * plan.stepSeconds - other.stepSeconds;
  result.share = other.stepSeconds > 0 ? result.seconds / other.stepSeconds : 0;
  result.parts = subtract(plan.parts, scale, other.parts);
  result.memory = subtract(plan.memory, other.memory);
  result.shortBytes = plan.shortBytes() > 0 ? plan.shortBytes() : plan.host.shortBytes();
  result.isHostShort = plan.shortBytes() <= 0 && plan.host.shortBytes() > 0;
  return result;
}

static std::vector<CollectiveTotal> totals(const Prediction &predicted) {
  std::vector<CollectiveTotal> result;
  for (const CollectiveUse &use : predicted.collectives) {
    auto same = std::find_if(result.begin(), result.end(), [&](const CollectiveTotal &total) {
      return total.axis == use.axis && total.send == use.send &&
             (use.send || total.kind == use.kind);
    });
    if (same == result.end())
      same = result.insert(result.end(), {use.kind, use.send, use.axis});
    same->count += use.count;
    same->bytes += double(use.count) * double(use.bytes);
    same->seconds += use.seconds;
  }
  return result;
}

std::vector<CollectivePair> differingCollectives(const Prediction &a, const Prediction &b) {
  std::vector<CollectiveTotal> second = totals(b);
  std::vector<CollectivePair> result;
  for (const CollectiveTotal &own : totals(a)) {
    CollectivePair pair{own, {own.kind, own.send, own.axis}};
    auto same = std::find_if(second.begin(), second.end(), [&](const CollectiveTotal &total) {
      return total.axis == own.axis && total.send == own.send && total.kind == own.kind;
    });
    if (same != second.end()) {
      pair.b = *same;
      second.erase(same);
    }
    if (!(pair.a == pair.b))
      result.push_back(pair);
  }
  for (const CollectiveTotal &own : second)
    result.push_back({{own.kind, own.send, own.axis}, own});
  return result;
}

} // namespace dtc::plan
