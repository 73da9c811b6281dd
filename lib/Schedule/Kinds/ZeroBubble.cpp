#include "Kinds.h"

#include <algorithm>

namespace dtc::schedule {

/// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.3):
/// 1F1B whose weight gradients come later, so that they fill the bubble at the
/// end. Rank r lags r microbatches behind with them and so keeps at most P
/// microbatches, as 1F1B's first rank does. Where the three passes take equally
/// long, the bubble is a third of 1F1B's.
static CallList calls(const ScheduleShape &shape, int64_t rank) {
  auto count = int32_t(shape.microbatches);
  auto lag = int32_t(std::min<int64_t>(rank, count));
  CallList calls = oneForwardOneBackward(shape, rank, [lag](CallList &calls, int32_t m) {
    calls.push_back({Pass::InputGrad, 0, m});
    if (m >= lag)
      calls.push_back({Pass::WeightGrad, 0, m - lag});
  });
  for (int32_t m = count - lag; m < count; ++m)
    calls.push_back({Pass::WeightGrad, 0, m});
  return calls;
}

static int64_t lateWeightGrads(const ScheduleShape &shape, int64_t rank, int64_t) {
  return std::min(rank + 1, shape.microbatches);
}

const Descriptor kZeroBubble = {
    .name = "zb",
    .about = "Zero-bubble: gradients of weights, which nobody waits for, are computed later, where "
             "a rank would be idle.",
    .sendsBesideCalls = true,
    .calls = calls,
    .lateWeightGrads = lateWeightGrads};

} // namespace dtc::schedule
