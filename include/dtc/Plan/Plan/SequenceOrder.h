// Which tokens of a sequence each rank of cp has.
//
// In order, the last of c ranks sees all keys under a causal mask, and the first only its own. In
// zig-zag, rank r has the chunks r and 2 c - 1 - r of 2 c, and all ranks see equally many. Where
// keys go round, no rank then computes what is hidden (Cost/RingWork.cpp). Where keys are gathered,
// a rank computes the scores of all keys whatever it has, and tokens keep their order.
#pragma once

#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Problem.h"

#include <string>

namespace dtc::plan {

/// Fills ProblemFacts::keepsOrder and sequenceSizes.
void findSequenceOrder(const Problem &problem, ProblemFacts &facts);

/// Whether ranks of cp pass keys and values on to each other.
bool passesKeysOn(const Degrees &degrees);

/// Why tokens of a model whose keys go round keep their order on this mesh, or "": they lie in
/// zig-zag.
std::string whyInOrder(const Problem &problem, const ProblemFacts &facts,
                       const sharding::Mesh &mesh);

/// Whether the program of this plan has them so.
bool liesInZigzag(const Problem &problem, const ProblemFacts &facts, const Plan &plan);

/// How an argument is loaded then: ranks read whole sequences, and take their chunks of them.
sharding::TensorSharding asLoaded(const Value &argument, sharding::TensorSharding sharding,
                                  const sharding::Mesh &mesh);

} // namespace dtc::plan
