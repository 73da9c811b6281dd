#include "Kinds.h"

#include <algorithm>

namespace dtc::schedule {

CallList inTurn(const ScheduleShape &shape, int64_t rank,
                const std::function<void(CallList &, int32_t)> &backward) {
  auto count = int32_t(shape.microbatches);
  auto warmup = int32_t(std::min<int64_t>(shape.ranks - rank - 1, count));
  CallList calls;
  for (int32_t m = 0; m < warmup; ++m)
    calls.push_back({Pass::Forward, 0, m});
  for (int32_t m = 0; m < count; ++m) {
    if (m + warmup < count)
      calls.push_back({Pass::Forward, 0, m + warmup});
    backward(calls, m);
  }
  return calls;
}

/// One forward, one backward, with a flush at the end of the step (Narayanan et
/// al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.2:
/// PipeDream-Flush). Rank r of P keeps at most P - r microbatches.
CallList oneFOneB(const ScheduleShape &shape, int64_t rank) {
  return inTurn(shape, rank,
                [](CallList &calls, int32_t m) { calls.push_back({Pass::Backward, 0, m}); });
}

} // namespace dtc::schedule
