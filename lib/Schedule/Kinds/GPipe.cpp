#include "Kinds.h"

namespace dtc::schedule {

/// Huang et al., GPipe, NeurIPS 2019, section 2.3.
static CallList calls(const ScheduleShape &shape, int64_t) {
  CallList calls;
  for (int32_t m = 0; m < shape.microbatches; ++m)
    calls.push_back({Pass::Forward, 0, m});
  for (int32_t m = 0; m < shape.microbatches; ++m)
    calls.push_back({Pass::Backward, 0, m});
  return calls;
}

static double lowerBound(const StepPaths &paths) { return paths.throughFlush(); }

const Descriptor kGPipe = {.name = "gpipe",
                           .about = "GPipe: all forward passes, then all backward passes.",
                           .isSearched = false, // never better than 1F1B
                           .keepsAll = true,
                           .calls = calls,
                           .lowerBound = lowerBound};

} // namespace dtc::schedule
