// Memory that the target's library needs to carry out an op.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

using Shapes = std::vector<std::vector<int64_t>>;

/// What an op needs on one rank beside its operands and results, as those say who will carry it
/// out. A plan is predicted with it where the target is at hand.
class Workspace {
public:
  virtual ~Workspace() = default;
  /// Bytes beside all operands and results at the moment when most is in use, for one rank's
  /// shapes. An operand that is `spent` is needed by nobody afterwards. It makes room as soon as
  /// the op has read it, so that the bytes may be negative.
  virtual int64_t bytes(OpId op, const Shapes &operands, const Shapes &results,
                        const std::vector<bool> &spent) const = 0;
};

} // namespace dtc::plan
