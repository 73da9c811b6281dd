#include "dtc/Schedule/Descriptor.h"

#include "Kinds/Kinds.h"

#include <algorithm>

namespace dtc::schedule {

static const Descriptor *const kDescriptors[] = {
#define DTC_SCHEDULE(kind) &k##kind,
#include "dtc/Schedule/Schedules.def"
};

std::span<const ScheduleKind> allSchedules() {
  static constexpr ScheduleKind kinds[] = {
#define DTC_SCHEDULE(kind) ScheduleKind::kind,
#include "dtc/Schedule/Schedules.def"
  };
  return kinds;
}

const Descriptor &describe(ScheduleKind kind) { return *kDescriptors[size_t(kind)]; }

int64_t countLateWeightGrads(const CallList &calls, int64_t chunk) {
  auto last = std::find_if(calls.rbegin(), calls.rend(),
                           [](const Call &call) { return call.pass == Pass::InputGrad; });
  return std::count_if(last.base(), calls.end(),
                       [&](const Call &call) { return call.chunk == chunk; });
}

std::optional<ScheduleKind> scheduleFromName(const std::string &text) {
  std::span<const ScheduleKind> all = allSchedules();
  auto found =
      std::find_if(all.begin(), all.end(), [&](ScheduleKind kind) { return text == name(kind); });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

} // namespace dtc::schedule
