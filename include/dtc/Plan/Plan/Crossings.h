// Which part of a model carries out each op where it is cut, and what crosses the cuts.
//
// Parts are runs of forward ops. A backward op belongs to the part of its forward op. A sum of
// gradients belongs to the part in which its last term is made. What is computed from buffers alone
// is computed wherever it is needed. Of
//
//   part      0           1           2
//   forward   y = f(x)    z = g(y)    u = h(z, y)
//   backward  dx(d)       d1(dz)      dz, d2
//                         d = d1 + d2
//
// y crosses both cuts forward, z the second one. dz and d2 cross the second one backward. The terms
// of d are complete in part 1, so it crosses the first one. A gradient that is only brought to a
// larger type is so where it is read. A value that skips parts is passed on by those in between.
// Gradients of parameters don't cross: each part that reads a parameter has a term, and these are
// summed up once a step.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

#include <functional>

namespace dtc::plan {

/// By op: the part that carries it out; -1: each that needs it. `partAt` gives the part of the
/// op's place in the forward pass (ProblemFacts::position).
std::vector<int> partsOfOps(const Problem &problem, const ProblemFacts &facts,
                            const std::function<int(OpId)> &partAt);

/// A value on its way from the part that makes it to the last one that needs it.
struct Crossing {
  ValueId value = 0;
  int from = 0, to = 0; ///< to a later part in the forward pass, to an earlier one in the backward
};

/// All of them, by value. `parts`: as partsOfOps has them.
std::vector<Crossing> crossingsOf(const Problem &problem, const ProblemFacts &facts,
                                  const std::vector<int> &parts);

} // namespace dtc::plan
