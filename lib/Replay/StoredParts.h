// Whether a program divides its stored parts among the ranks that its placements name.
//
// The parts of a parameter lie flattened along `flat_axes` (Program.fbs). All that is stored of
// it so lies in the same place of a bucket, since the update computes on parts of one form. And
// what is gathered from a part, or scattered to one, goes among the ranks along these axes, in
// their order. A group of another axis may have as many ranks:
//
//   <dp=2, tp=2>  parts over dp, gathered along tp -> "gathers parameter 'w' among other ranks
//                                                     than those that share it"
#pragma once

#include "dtc/Replay/ReplayPrograms.h"

namespace dtc::replay {

/// Empty, or what is wrong.
std::string checkStoredParts(const Role &role);

} // namespace dtc::replay
