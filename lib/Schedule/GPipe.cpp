#include "Kinds.h"

namespace dtc::schedule {

/// All forward passes, then all backward passes in the same order (Huang et
/// al., GPipe, NeurIPS 2019, section 2.3). Keeps every microbatch.
CallList gpipe(const ScheduleShape &shape, int64_t) {
  CallList calls;
  for (int32_t m = 0; m < shape.microbatches; ++m)
    calls.push_back({Pass::Forward, 0, m});
  for (int32_t m = 0; m < shape.microbatches; ++m)
    calls.push_back({Pass::Backward, 0, m});
  return calls;
}

} // namespace dtc::schedule
