// Rows that choose their experts at run time, where ranks share them.
//
// Which rank has how many of them is known at run time alone. A program that is shared out gets
// slots for them before it is planned (Graph/SlotOps.td), and its problem has no such rows any
// more. Plans for other programs are of problems without slots, as if all experts were chosen
// equally often.
#pragma once

#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

struct Problem;

/// Why the problem's program can't be shared out like this, or "".
std::string whyRowsStayWhole(const Problem &problem, const Degrees &degrees);

} // namespace dtc::plan
