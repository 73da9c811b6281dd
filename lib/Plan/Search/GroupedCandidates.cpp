// Candidates whose stages have meshes of their own.
#include "Enumeration.h"

#include <algorithm>
#include <numeric>

namespace dtc::plan {

/// Each type of device has a mesh for its stages, if the user leaves that open. (What
/// more than a few types could do is too much to try.)
bool Enumeration::mayDiffer() const {
  constexpr size_t mostTypes = 4;
  return options.unequalMeshes && !options.abilities.hasLimits() && range.alike.size() > 1 &&
         range.alike.size() <= mostTypes && !options.samplesPerRank && problem.globalBatch() > 0 &&
         !spec.dp && !spec.tp;
}

/// All ways for the devices after those that have their groups already. Of more than
/// two types, each is one stage or all stages have as many devices.
void Enumeration::addGroups(int64_t cp, int64_t ep, std::vector<StageGroup> groups) {
  Degrees degrees;
  degrees.cp = cp;
  degrees.ep = ep;
  if (groups.size() == range.alike.size()) {
    degrees.groups = std::move(groups);
    return addGrouped(std::move(degrees));
  }
  int64_t devices = range.alike[groups.size()];
  int64_t stages = 0;
  for (const StageGroup &group : groups)
    stages += group.pp;
  for (int64_t pp : divisors(devices, std::nullopt, mostStages(spec.pp) - stages)) {
    int64_t first = groups.empty() ? 0 : range.alike[0] / groups[0].pp;
    bool isRegular = range.alike.size() == 2 || groups.empty() || devices / pp == first ||
                     (pp == 1 && groups[0].pp == 1);
    if (!isRegular || devices / pp % (degrees.cp * degrees.ep) != 0)
      continue;
    int64_t rest = devices / pp / (degrees.cp * degrees.ep);
    for (int64_t tp : divisors(rest, std::nullopt, range.tensorParallel)) {
      groups.push_back({pp, rest / tp, tp, false, 1});
      addGroups(cp, ep, groups);
      groups.pop_back();
    }
  }
}

/// Whether so many data-parallel ranks suit the problem.
bool Enumeration::suits(const Degrees &degrees) {
  auto [it, isNew] = suitable.try_emplace({degrees.dp, degrees.cp, degrees.ep}, false);
  if (isNew)
    it->second = whyNot(degrees).empty();
  return it->second;
}

/// With microbatches that all groups can share out among their ranks.
void Enumeration::addGrouped(Degrees degrees) {
  const StageGroup &first = degrees.groups.front();
  degrees.tp = first.tp;
  degrees.dp = first.dp;
  degrees.pp = 0;
  int64_t together = 1, fewest = first.dp;
  bool areAlike = true;
  for (const StageGroup &group : degrees.groups) {
    degrees.pp += group.pp;
    together = std::lcm(together, group.dp);
    fewest = std::min(fewest, group.dp);
    areAlike &= group.dp == first.dp && group.tp == first.tp;
  }
  if (areAlike || (spec.pp && *spec.pp != degrees.pp) || degrees.pp > mostStages(spec.pp))
    return;
  for (size_t group = 0; group < degrees.groups.size(); ++group)
    if (!suits(inGroup(degrees, group)))
      return;
  if (!shares(degrees))
    return;
  int64_t all = options.fixedCalls ? problem.batch : problem.globalBatch();
  int64_t least = options.fixedCalls ? all : together * degrees.ep;
  for (int64_t samples = least; samples <= all; samples *= 2) {
    if (all % samples != 0 || samples % (together * degrees.ep) != 0)
      continue;
    for (StageGroup &group : degrees.groups)
      group.microBatch = samples / (group.dp * degrees.ep);
    degrees.microBatch = first.microBatch;
    degrees.numMicrobatches = problem.globalBatch() / samples;
    bool isAsked = !spec.microBatch || *spec.microBatch == degrees.microBatch;
    if (isAsked && samples / (fewest * degrees.ep) <= mostSamples())
      addSchedules(degrees);
  }
}

/// Those of a plan that is planned again.
void Enumeration::addPinnedGroups() {
  Degrees degrees;
  degrees.dp = *spec.dp;
  degrees.tp = *spec.tp;
  degrees.pp = *spec.pp;
  degrees.cp = spec.cp.value_or(1);
  degrees.ep = spec.ep.value_or(1);
  degrees.microBatch = *spec.microBatch;
  degrees.groups = spec.groups;
  int64_t samples = degrees.dataRanks() * degrees.microBatch;
  int64_t all = options.fixedCalls ? problem.batch : problem.globalBatch();
  for (size_t group = 0; group < degrees.groups.size(); ++group)
    if (std::string reason = whyNot(inGroup(degrees, group)); !reason.empty())
      result.refusal = reason;
  if (!result.refusal.empty() || !shares(degrees))
    return;
  if (samples < 1 || all % samples != 0 || (options.fixedCalls && samples != all)) {
    result.refusal = "the batch of " + std::to_string(all) +
                     " samples can't be cut into microbatches of " + std::to_string(samples);
    return;
  }
  degrees.numMicrobatches = problem.globalBatch() / samples;
  addSchedules(degrees);
}

} // namespace dtc::plan
