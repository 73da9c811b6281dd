// The sharding of a problem stated for an integer program. It has what there is to decide and what
// it costs, from the rules, the cost model and the reshards.
//
// It is said again what ShardingSolver.h says, without the solver's network. Its classes of choices
// that look alike, its shared tables and what it derives from equal layers are left out. In a
// forward graph every op is decided by itself and its choices are enumerated here. With a backward
// pass an op is decided together with its gradients, by the planner's own choices
// (Planners/Choices.h), of which only the shardings are taken.
//
//   deciders   one of `costs` each: an op, or the sharding of a parameter
//   transfers  a value laid out as the hub's choice says is brought to every
//              distinct sharding that choices of the spokes name, at `seconds`
//   tables     a cost for each combination of classes of several deciders
#pragma once

#include "dtc/Plan/Search/Search.h"

#include <nlohmann/json_fwd.hpp>

namespace dtc::plan::testing {

struct StatementCase {
  Problem problem;
  Cluster cluster;
  Degrees degrees;
  SolverOptions options;
  bool folded = false; ///< solved as models of many equal layers are (Fold.h)
};

/// The statement, the solver's answer (its cost, its gap, its choice for each
/// decider) and what `predict` says of the solver's plan.
nlohmann::json stateSharding(const StatementCase &given);

} // namespace dtc::plan::testing
