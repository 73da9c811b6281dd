// Memory that the target's library needs to carry out an op.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

using Shapes = std::vector<std::vector<int64_t>>;

/// Where the tensors of an op are, as far as it matters to what else needs room.
struct OpPlaces {
  std::vector<bool> spent; ///< by operand: nobody needs it afterwards
  std::vector<bool> apart; ///< by result: it has a place of its own all step
  bool operator==(const OpPlaces &) const = default;
};

/// What an op needs on one rank beside its operands and results, as those say who will carry it
/// out. A plan is predicted with it where the target is at hand.
class Workspace {
public:
  virtual ~Workspace() = default;
  /// Bytes beside all operands and results at the moment when most is in use, for one rank's
  /// shapes. A spent operand makes room as soon as the op has read it, and a result needs none
  /// before it is written. So the bytes may be negative.
  virtual int64_t bytes(OpId op, const Shapes &operands, const Shapes &results,
                        const OpPlaces &places) const = 0;
};

} // namespace dtc::plan
