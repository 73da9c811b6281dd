#include "Kinds.h"

#include <algorithm>

namespace dtc::schedule {

CallList oneForwardOneBackward(const ScheduleShape &shape, int64_t rank,
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
static CallList calls(const ScheduleShape &shape, int64_t rank) {
  return oneForwardOneBackward(
      shape, rank, [](CallList &calls, int32_t m) { calls.push_back({Pass::Backward, 0, m}); });
}

const Descriptor kOneFOneB = {
    .name = "1f1b",
    .about = "1F1B: once the pipeline is full, each rank alternates one forward and one backward "
             "pass, so that few microbatches are held at a time.",
    .calls = calls};

} // namespace dtc::schedule
