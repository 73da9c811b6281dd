// The experts of a mixture: which factor of an op counts them.
//
// A contraction runs experts side by side where it has a factor that its weights
// have, its activations and its result, too: each expert multiplies what was
// dispatched to it by weights of its own. In GShard's layer (Lepikhin et al. 2020)
//
//   inputs[e,b,c,m] = dispatch[b,s,e,c] * x[b,s,m]
//   hidden[e,b,c,f] = inputs[e,b,c,m] * wi[e,m,f]       runs experts: e
//
// Expert parallelism splits that factor over the axis ep, which splits the batch
// everywhere else: hidden[e{ep}, b{dp}], inputs[e, b{dp,ep}] before it. What lies
// between is an all-to-all over ep, as any reshard is found. Ops around that carry
// the factor may do either.
#pragma once

#include "dtc/Plan/Problem.h"

namespace dtc::plan {

struct Experts {
  Experts(const Problem &problem, const ProblemFacts &facts);

  std::vector<sharding::FactorId> factor; ///< by op, or -1
  std::vector<bool> runs;                 ///< by op: whether it is such a contraction
  /// The greatest number of ranks among which all experts can be shared out; 1:
  /// there are none.
  int64_t mostRanks = 1;
};

} // namespace dtc::plan
