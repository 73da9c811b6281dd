// The experts of a mixture: which factor of an op counts them.
//
// A contraction runs experts side by side where its weights have a factor that its activations and
// its result have, too. Each expert multiplies what was dispatched to it by weights of its own. In
// GShard's layer (Lepikhin et al. 2020)
//
//   inputs[e,b,c,m] = dispatch[b,s,e,c] * x[b,s,m]
//   hidden[e,b,c,f] = inputs[e,b,c,m] * wi[e,m,f]       runs experts: e
//
// Where rows find their experts when the program runs, every choice of a token is a row, and none
// is dropped. The factor is then `Op::groupedExperts`: of a grouped contraction
//
//   hidden[b,(e c),f] = rows[b,(e c),m] * wi[e,m,f]      c rows for each expert
//
// and of the exchanges before and after it. How many rows an expert really has is
// nobody's to know: plans take it that all have as many. Under context parallelism
// parts of the sequence come before it, (s e c): withSplitSequence, Problem.h.
// Programs that run have slots for rows, and parts of the experts are a dimension of
// the product as they are of GShard's (SlotOps.td).
//
// Expert parallelism splits that factor over the axis ep, which splits the batch
// everywhere else: hidden[e{ep}, b{dp}], inputs[e, b{dp,ep}] before it. What lies
// between is an all-to-all over ep, as any reshard is found. Ops around that carry
// the factor may do either.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

struct Experts {
  Experts(const Problem &problem, const ProblemFacts &facts);

  std::vector<sharding::FactorId> factor; ///< by op, or -1
  std::vector<bool> runs;                 ///< by op: whether it is such a contraction
  /// The greatest number of ranks among which all experts can be shared out; 1:
  /// there are none.
  int64_t mostRanks = 1;
  bool areGrouped = false; ///< chosen equally often, as no program can rely on
};

} // namespace dtc::plan
