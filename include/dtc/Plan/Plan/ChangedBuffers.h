// Buffers that a microbatch changes for the next one, and where a pipeline may be cut for them.
//
// A batch norm replaces its running statistics. A norm that a model calls twice reads them twice,
// the second time as the first call has left them:
//
//   ops       0 norm(x, mean)   1 conv   2 norm(y, mean')   3 conv
//   cuts          no              no          yes
//
// While a later stage works on one microbatch, an earlier one has changed the buffer for another.
// So one stage has all ops that read a buffer, and the one that replaces it.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// Forward ops [first, last] that one stage must have.
struct JoinedOps {
  OpId first = 0, last = 0;
  std::string buffer; ///< for which they are
};

/// Those of each buffer that is changed and that several ops are about.
std::vector<JoinedOps> joinedOps(const Problem &problem, const ProblemFacts &facts);

/// The first of them that a stage would cut apart which begins with this op; null for none.
const JoinedOps *cutApart(const std::vector<JoinedOps> &joined, OpId begin);

} // namespace dtc::plan
