// Groups of microbatches.
//
// With several chunks a rank, an interleaved schedule works in groups of microbatches. As many as
// there are ranks pass a chunk before they go on to the next. Microbatches that fill no group make
// the last one larger. A rank keeps more of that one.
#pragma once

#include "dtc/Schedule/Schedule.h"

namespace dtc::schedule {

/// Microbatches of a supported shape that fill no group; 0 where there are no groups.
int64_t leftOver(const ScheduleShape &shape);

} // namespace dtc::schedule
