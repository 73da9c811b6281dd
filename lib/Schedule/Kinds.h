// The schedules, one file each. They leave slots to makeSchedule. Their shape
// is one that `unsupported` accepts.
#pragma once

#include "dtc/Schedule/Schedule.h"

#include <functional>

namespace dtc::schedule {

using CallList = std::vector<Call>;

/// Rank r of P runs P - r - 1 forward passes ahead, then one forward and one
/// backward pass in turn; `backward` appends the calls of the latter for a microbatch.
CallList inTurn(const ScheduleShape &shape, int64_t rank,
                const std::function<void(CallList &, int32_t)> &backward);

CallList gpipe(const ScheduleShape &shape, int64_t rank);
CallList oneFOneB(const ScheduleShape &shape, int64_t rank);
CallList interleaved(const ScheduleShape &shape, int64_t rank);
CallList zeroBubble(const ScheduleShape &shape, int64_t rank);

} // namespace dtc::schedule
