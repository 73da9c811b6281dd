// The schedules, one file each. They leave slots to makeSchedule. Their shape
// is one that `unsupported` accepts.
#pragma once

#include "dtc/Pipeline/Schedule.h"

namespace dtc::pipeline {

using CallList = std::vector<Call>;

CallList gpipe(const ScheduleShape &shape, int64_t rank);
CallList oneFOneB(const ScheduleShape &shape, int64_t rank);
CallList interleaved(const ScheduleShape &shape, int64_t rank);
CallList zeroBubble(const ScheduleShape &shape, int64_t rank);

} // namespace dtc::pipeline
