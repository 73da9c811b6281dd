// Whether the tensors of a plan can be brought from how they are made to how they are read.
#pragma once

#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Problem.h"

#include <optional>
#include <string>

namespace dtc::plan {

struct BrokenFlow {
  OpId op = -1;        ///< that reads or, of what the function returns, makes the tensor
  std::string message; ///< both shardings
};

/// The first tensor that can't be had as it is read. Gradients and losses alone may leave a pending
/// sum pending, and nothing that is complete can become pending. Of
///
///   y = x * w      x [{},{tp}], w [{tp},{}]: y is pending over tp
///   z = gelu(y)    as [{},{}] or [{},{tp}]: y is summed up before
///
/// the gelu can't read y as a sum that is pending over dp. All ops and arguments have shardings
/// that fit them.
std::optional<BrokenFlow> findBrokenFlow(const Problem &problem, const ProblemFacts &facts,
                                         const Plan &plan);

/// How a result leaves that is laid out like `made` where it is made. Outputs leave complete.
/// Gradients leave as their parameter, still pending where the step sums them once.
sharding::TensorSharding leavingSharding(const FunctionResult &result,
                                         const sharding::TensorSharding &made,
                                         const ProblemFacts &facts, const Plan &plan);

} // namespace dtc::plan
