// Finds out that a rank hangs in a step, from what all ranks say of their steps once a second.
//
//   second          1   2   3   4   5   6   7   8
//   rank 0's step   7   8   8   8   8   8   8   8
//   rank 1's step   7   7   8   8   8   8   8   8   -> with a patience of 5 s: in second 8
//
// A second in which a rank is held up, as on an overloaded machine, doesn't count. Then the step
// may take a minute, or the patience where that is longer. Where ranks compute by themselves and no
// thread of any of them has anything to do, they wait for each other, and five seconds of it are
// enough whatever a step may take.
#pragma once

#include "dtc-rt/Communicator.h"

#include <optional>
#include <span>
#include <vector>

namespace dtc::rt {

/// The time from one beat of a rank to the next.
inline constexpr std::chrono::seconds kBeat(1);

struct RankBeat {
  StepPulse pulse;
  /// Whether something else than a rank that hangs may make the step long.
  bool isHeldUp = false;
  /// Whether no thread of the rank has computed or moved anything since the last beat.
  bool isIdle = false;
};

class StallFinder {
public:
  /// After each beat, of all ranks in their order: how long all have been in their steps, where
  /// that is too long. A rank that does something else may be what the others wait for.
  std::optional<std::chrono::seconds> find(std::span<const RankBeat> ranks);

private:
  std::vector<int64_t> steps;              ///< of all ranks, at the last beat
  std::chrono::seconds all{0}, counted{0}; ///< for which they have been the same
  std::chrono::seconds idle{0};            ///< for which, now, no rank has computed anything
};

} // namespace dtc::rt
