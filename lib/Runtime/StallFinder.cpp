#include "StallFinder.h"
#include "StepWatch.h"

#include <algorithm>
#include <utility>

namespace dtc::rt {

std::optional<std::chrono::seconds> StallFinder::find(std::span<const RankBeat> ranks) {
  std::vector<int64_t> now;
  std::chrono::seconds patience{0};
  bool isHeldUp = false, areIdle = true;
  for (const RankBeat &rank : ranks) {
    now.push_back(rank.pulse.step);
    patience = std::max(patience, rank.pulse.patience);
    isHeldUp = isHeldUp || rank.isHeldUp;
    areIdle = areIdle && rank.isIdle && rank.pulse.computesHere;
  }
  const bool areAllInSteps = std::ranges::count(now, 0) == 0;
  if (std::exchange(steps, now) != now || !areAllInSteps) {
    all = counted = idle = std::chrono::seconds(0);
    return std::nullopt;
  }
  all += kBeat;
  if (!isHeldUp)
    counted += kBeat;
  idle = areIdle && !isHeldUp ? idle + kBeat : std::chrono::seconds(0);
  if (idle >= kSurePatience)
    return kSurePatience;
  if (counted >= patience)
    return patience;
  const std::chrono::seconds most = std::max(kUnsurePatience, patience);
  return all >= most ? std::optional(most) : std::nullopt;
}

} // namespace dtc::rt
