#include "TryCandidate.h"

#include "dtc/Plan/Predict/StageDevices.h"

#include <algorithm>
#include <functional>

namespace dtc::plan {

using Outcome = Estimator::Outcome;

bool keepIfFaster(SearchState &state, const Estimate &known, Degrees degrees, double seconds) {
  degrees.recomputeBlocks = Degrees().recomputeBlocks;
  EstimateOptions asked{beatsBest(state) * double(degrees.samples()), false,
                        state.recomputesSome(degrees)};
  Estimate estimated;
  if (state.estimate(degrees, known.variant, asked, estimated) != Outcome::Found ||
      estimated.perSample() >= seconds)
    return false;
  state.keep(std::move(estimated));
  return true;
}

int64_t mostTensorRanks(const Degrees &degrees) {
  int64_t most = degrees.tp;
  for (const StageGroup &group : degrees.groups)
    most = std::max(most, group.tp);
  return most;
}

/// Smaller groups of ZeRO's storage. Of stages with meshes of their own, those that suit all.
static std::vector<int64_t> smallerZeroGroups(SearchState &state, const Degrees &candidate) {
  if (candidate.groups.empty())
    return zeroGroups(candidate, state.cluster);
  std::vector<DeviceRange> ranges = neighbouringDevices(candidate);
  std::vector<int64_t> result;
  int64_t rank = 0;
  for (size_t group = 0; group < candidate.groups.size(); ++group) {
    const Cluster &own = state.shardings.on(ranges[static_cast<size_t>(rank)]).getCluster();
    for (int64_t ranks : zeroGroups(inGroup(candidate, group), own))
      if (suitsGroups(candidate, ranks))
        result.push_back(ranks);
    rank += candidate.groups[group].pp;
  }
  std::sort(result.begin(), result.end(), std::greater<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

static bool mayShare(const SearchOptions &options, int64_t ranks) {
  const Abilities &abilities = options.abilities;
  return abilities.groupsZero && (!abilities.zeroGroup || *abilities.zeroGroup == ranks);
}

namespace {

class Trial {
public:
  Trial(SearchState &state, const Attempt &attempt) : state(state), attempt(attempt) {}

  void run(const Degrees &candidate);
  bool wasShort = false; ///< of memory

private:
  /// What becomes of the shardings of some degrees.
  struct Shardings {
    Degrees degrees, like1F1B;
    Outcome outcome = Outcome::TooLarge;
    bool isDone = false;
  };
  Outcome tryDegrees(const Degrees &degrees);
  void trySharding(const ShardVariant &variant, Shardings &tried);
  void take(Outcome outcome, Shardings &tried) const;
  bool tryRecomputation(Degrees degrees, size_t &recompute);
  /// Shardings are solved without knowing of cuts. Where stages differ, what devices of a slower
  /// type receive may be what a step takes longest for. Sequence parallelism, or holding less,
  /// leaves less of it to each.
  bool mayReceiveLess(const Degrees &degrees) const {
    return !state.cluster.others.empty() && degrees.pp > 1;
  }

  SearchState &state;
  const Attempt &attempt;
};

} // namespace

/// Takes note of an estimate that found nothing.
void Trial::take(Outcome outcome, Shardings &tried) const {
  if (tried.outcome != Outcome::Found)
    tried.outcome = outcome;
  if (!attempt.everySharding)
    tried.isDone = outcome != Outcome::TooSlow || !mayReceiveLess(tried.degrees);
}

void Trial::trySharding(const ShardVariant &variant, Shardings &tried) {
  const Degrees &degrees = tried.degrees;
  const bool someBlocks = state.recomputesSome(degrees);
  auto [fits, isNew] = state.mayFit.try_emplace({tried.like1F1B, variant}, true);
  if (isNew && degrees != tried.like1F1B)
    fits->second = state.estimator.mayFit(tried.like1F1B, variant, someBlocks);
  wasShort = wasShort || !fits->second;
  // Ranks of several stages may share out the model more evenly.
  if (!fits->second && degrees.chunks == 1)
    return;
  EstimateOptions asked{attempt.limit(state) * double(degrees.samples()), false, someBlocks};
  Estimate estimated;
  Outcome outcome = state.estimate(degrees, variant, asked, estimated);
  if (outcome == Outcome::TooLarge) {
    fits->second = fits->second && degrees != tried.like1F1B;
    wasShort = true;
    return;
  }
  if (outcome != Outcome::Found)
    return take(outcome, tried);
  tried.outcome = outcome;
  // A sharding that holds less may have to recompute less.
  bool recomputes = someBlocks && estimated.degrees.recompute != Recompute::None;
  wasShort = wasShort || recomputes;
  state.keep(std::move(estimated));
  tried.isDone = !recomputes && !mayReceiveLess(degrees);
}

/// What doesn't fit with 1F1B fits with no schedule of as many stages, which keep no less. With a
/// limit below the P microbatches of 1F1B's first rank, a schedule stands for itself.
static Degrees like1F1B(Degrees degrees) {
  if (degrees.kept > 0 && degrees.kept < degrees.pp)
    return degrees;
  degrees.schedule = ScheduleKind::OneFOneB;
  degrees.chunks = 1;
  degrees.kept = 0;
  return degrees;
}

Outcome Trial::tryDegrees(const Degrees &degrees) {
  Shardings tried{degrees, like1F1B(degrees)};
  for (const ShardVariant &variant : attempt.variants(state, degrees)) {
    if (variant.sequenceParallel && mostTensorRanks(degrees) == 1 && !state.spec.sp)
      continue; // nothing to be parallel over
    if (variant.sequenceParallel != true &&
        needsSp(state.options.abilities, degrees.tp, degrees.ep))
      continue;
    trySharding(variant, tried);
    if (tried.isDone)
      break;
  }
  return tried.outcome;
}

/// Recomputes ever more, beginning with the `recompute`-th way, until a plan fits;
/// false when none does.
bool Trial::tryRecomputation(Degrees degrees, size_t &recompute) {
  std::vector<Recompute> ways = state.recomputations();
  for (; recompute < ways.size(); ++recompute) {
    degrees.recompute = ways[recompute];
    if (tryDegrees(degrees) != Outcome::TooLarge)
      return true;
  }
  return false;
}

void Trial::run(const Degrees &candidate) {
  std::vector<int64_t> groups = {candidate.zeroGroup};
  // Who asks for ZeRO-1 means all of dp, as a distributed optimizer has it.
  if (!state.spec.zeroGroup && state.spec.zero != 1) {
    std::vector<int64_t> smaller = smallerZeroGroups(state, candidate);
    std::erase_if(smaller, [&](int64_t ranks) { return !mayShare(state.options, ranks); });
    groups.insert(groups.end(), smaller.begin(), smaller.end());
  }
  for (int zero : state.zeroLevels(candidate)) {
    Degrees degrees = candidate;
    degrees.zero = zero;
    size_t recompute = 0;
    for (int64_t group : groups) {
      degrees.zeroGroup = zero > 0 ? group : candidate.zeroGroup;
      if (!tryRecomputation(degrees, recompute) || zero == 0)
        break;
    }
  }
}

/// The next smaller limit that is tried: as many as 1F1B keeps, then half as many each time.
static int64_t fewerKept(const Degrees &degrees) {
  int64_t kept = std::min(degrees.kept, degrees.numMicrobatches);
  return kept > degrees.pp ? degrees.pp : kept / 2;
}

bool tryCandidate(SearchState &state, const Degrees &candidate, const Attempt &attempt) {
  bool wasShort = false;
  for (Degrees degrees = candidate;; degrees.kept = fewerKept(degrees)) {
    Trial trial(state, attempt);
    trial.run(degrees);
    wasShort = wasShort || trial.wasShort;
    if (!trial.wasShort || !state.choosesKept(degrees) || fewerKept(degrees) == 0)
      return wasShort;
  }
}

} // namespace dtc::plan
