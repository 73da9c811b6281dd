// Which tensors dtc's own programs on GPUs don't copy for attention in one kernel: a library reads
// parts of a stored tensor by strides, and writes gradients to where they are joined.
//
//   qkv = x w                 stored, as b s 3 h e
//   q = slice, reshape qkv    read in place, and so are k and v
//   dq, dk, dv = ...          written to their places in the next one
//   dqkv = concat dq dk dv    no kernel
//
// Where the parts lie follows from what slices and transposes read (Op::reads) and from reshapes,
// as lib/Kernels/AttentionCalls.cpp finds it (Sharding/Strides.h).
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// Whether a value that an attention reads is a part of a stored one, by strides that libraries
/// take. All of the stored one is read, as otherwise a copy is kept in its place.
bool isReadInPlace(const Problem &problem, const ProblemFacts &facts, OpId attention,
                   ValueId value);

/// Whether an op joins nothing but gradients that one attention writes to their places in it.
bool joinsInPlace(const Problem &problem, const ProblemFacts &facts, OpId op);

} // namespace dtc::plan
