// When whole parameters and gradients are in memory that ZeRO stores in parts.
//
// A block's parameters are gathered as the block before it begins (GatherAhead.cpp), and each
// goes after its last use in that pass. Its gradients stay whole until the block after it has
// made its own, for so long they are scattered (Bucket.cpp). Of three blocks going backward:
//
//                      c             b             a
//   parameters of      c and b       b and a       a
//   gradients of       c             c and b       b and a
//
// A block between these that stores neither in parts has them for longer: those of the next block
// are gathered before it, and the gradients of the last one that has some stay until then.
//
// What a block has of itself is counted step by step. That of its neighbours is counted by block,
// as the cuts decide whether they are in the same stage.
#pragma once

#include "dtc/Plan/Predict/RankExecution.h"

#include <vector>

namespace dtc::plan {

struct StoredLiveness {
  /// Bytes of parameters (ZeRO-3) and of gradients (ZeRO-2 and 3) of a step's own unit.
  std::vector<int64_t> gathered, scattered; ///< by step
  /// Of what is scattered, tied gradients that a step's unit has scattered already. Their parts
  /// wait to be added up.
  std::vector<int64_t> tied; ///< by step; empty: none
  std::vector<int64_t> tiedGradients; ///< by unit: what `gradients` has of these, among all else
  /// Of tied gradients, what a step makes that is scattered right behind it.
  std::vector<int64_t> leaves; ///< by step; empty: nothing
  /// Of what is gathered, what the next unit of the pass that gathers anything reads, too. Between
  /// units of one stage it stays.
  std::vector<int64_t> again; ///< by step
  /// Of a step's own unit, what is being summed up over further ranks for a gradient that is
  /// scattered. The sum is waited for late, and what it reads is held until then.
  std::vector<int64_t> underWay; ///< by step
  /// What a unit gathers before its forward and its backward pass, and scatters.
  std::vector<int64_t> forward, backward, gradients; ///< by unit
  /// By unit, the step of the backward pass before which the next unit's parameters are gathered:
  /// the first one that reads any of its own. Past the end where it reads none.
  std::vector<size_t> gathersNext;
};

/// Where all of it stays whole.
StoredLiveness nothingStored(size_t steps, int units);

struct StoredInStages {
  StoredLiveness apart; ///< with units in stages of their own
  /// All units are in one stage, so that what several of them read stays from the first to the
  /// last.
  StoredLiveness joined;
};

/// Of each argument, by which level of ZeRO it is stored; empty: all that are trained by one level.
using StorageLevels = std::vector<int>;
inline bool isGathered(const StorageLevels &levels, ValueId parameter) {
  return levels.empty() || levels[parameter] > 2;
}
inline bool isScattered(const StorageLevels &levels, ValueId parameter) {
  return levels.empty() || levels[parameter] > 1;
}

/// `unitOfStep`: of `units`.
StoredInStages storedLiveness(const RankExecution &execution, const Problem &problem, int units,
                              const std::vector<int> &unitOfStep, const StorageLevels &levels = {});

} // namespace dtc::plan
