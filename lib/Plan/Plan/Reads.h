// What slices, transposes and broadcasts read of their operands.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// Whether all elements that an op reads (Op::reads) lie in its operand.
bool readsInside(const Problem &problem, const Op &op);

} // namespace dtc::plan
