// What the files of this folder define, and what they share.
#pragma once

#include "dtc/Schedule/Descriptor.h"

#include <functional>

namespace dtc::schedule {

#define DTC_SCHEDULE(kind) extern const Descriptor k##kind;
#include "dtc/Schedule/Schedules.def"

/// Rank r of P runs P - r - 1 forward passes ahead, then one forward and one backward pass in turn.
/// `backward` appends the calls of the latter for a microbatch.
CallList oneForwardOneBackward(const ScheduleShape &shape, int64_t rank,
                               const std::function<void(CallList &, int32_t)> &backward);

/// How many weight gradient calls of a chunk follow the last input gradient call.
int64_t countLateWeightGrads(const CallList &calls, int64_t chunk);

/// The same of a schedule that has no formula for it: it makes the calls.
template <auto Calls>
int64_t lateWeightGradsOf(const ScheduleShape &shape, int64_t rank, int64_t chunk) {
  return countLateWeightGrads(Calls(shape, rank), chunk);
}

} // namespace dtc::schedule
