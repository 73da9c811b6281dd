// Schedules of programs that train nothing.
//
// Such a schedule is what remains of its kind without the backward passes: each rank makes its
// forward calls in the same order. Interleaved with P = 2, C = 2 and 4 microbatches:
//
//   rank 0   F0 F1 F0.1 F1.1 F2 F3 F2.1 F3.1
//   rank 1   F0 F1 F0.1 F1.1 F2 F3 F2.1 F3.1
//
// Nothing is kept for a backward pass, so that a chunk has one slot. A slot is held on until the
// next chunk has read it, where that lies on the same rank.
#pragma once

#include "dtc/Schedule/Schedule.h"

namespace dtc::schedule {

/// Whether a schedule has a backward pass.
bool trains(const Schedule &schedule);

/// A schedule without its backward passes.
Schedule forwardPasses(Schedule schedule);

/// The schedule of a step that trains, or doesn't; nothing where the shape is unsupported.
std::optional<Schedule> makeSchedule(const ScheduleShape &shape, bool trains);

} // namespace dtc::schedule
