#include "Kinds.h"

#include <algorithm>
#include <optional>

namespace dtc::schedule {

namespace {

/// A rank on its way through a step: how many calls of each pass it has made.
struct Progress {
  int64_t forward = 0, inputGrad = 0, weightGrad = 0;
};

} // namespace

/// The call that a rank makes next, given what all have made; none: it waits. Others wait for input
/// gradients, so these come first, then forward passes as far as memory allows.
static std::optional<Pass> nextPass(const std::vector<Progress> &ranks, size_t rank,
                                    int64_t microbatches, int64_t mostKept) {
  const Progress &own = ranks[rank];
  const bool isLast = rank + 1 == ranks.size();
  int64_t ready = isLast ? own.forward : std::min(own.forward, ranks[rank + 1].inputGrad);
  if (own.inputGrad < ready)
    return Pass::InputGrad;
  int64_t arrived = rank == 0 ? microbatches : ranks[rank - 1].forward;
  if (own.forward < arrived && own.forward - own.weightGrad < mostKept)
    return Pass::Forward;
  if (own.weightGrad < own.inputGrad)
    return Pass::WeightGrad;
  return std::nullopt;
}

/// The fewest with which the first rank has work until its first gradients arrive.
static int64_t usuallyKept(int64_t ranks) { return 2 * ranks - 1; }

/// List scheduling with three passes that take equally long, as Qi et al. search schedules (Zero
/// Bubble Pipeline Parallelism, ICLR 2024, section 3.1). At each tick every rank makes the most
/// urgent call that is ready. The oldest microbatch can always go on, as it isn't held back by what
/// a rank keeps. So with any limit the lists end.
static CallList calls(const ScheduleShape &shape, int64_t rank) {
  const int64_t mostKept = shape.kept > 0 ? shape.kept : usuallyKept(shape.ranks);
  std::vector<Progress> ranks(static_cast<size_t>(shape.ranks));
  std::vector<std::optional<Pass>> made(ranks.size());
  const auto own = static_cast<size_t>(rank);
  CallList calls;
  while (ranks[own].weightGrad < shape.microbatches) {
    for (size_t r = 0; r < ranks.size(); ++r)
      made[r] = nextPass(ranks, r, shape.microbatches, mostKept);
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (!made[r])
        continue;
      Progress &now = ranks[r];
      int64_t &count = *made[r] == Pass::Forward     ? now.forward
                       : *made[r] == Pass::InputGrad ? now.inputGrad
                                                     : now.weightGrad;
      if (r == own)
        calls.push_back({*made[r], 0, int32_t(count)});
      ++count;
    }
  }
  return calls;
}

static double lowerBound(const StepPaths &paths) { return paths.throughKept(); }

const Descriptor kListScheduled = {
    .name = "list",
    .about =
        "List scheduling: each rank makes the most urgent call that is ready, and keeps no more "
        "microbatches than the plan says.",
    .isSearched = false,
    .usuallyKept = usuallyKept,
    .sendsBesideCalls = true,
    .calls = calls,
    .lateWeightGrads = lateWeightGradsOf<calls>,
    .lowerBound = lowerBound};

} // namespace dtc::schedule
