#include "Kinds.h"

#include <algorithm>

namespace dtc::schedule {

/// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.3):
/// 1F1B whose weight gradients come later, so that they fill the bubble at the
/// end. Rank r lags r microbatches behind with them and so keeps at most P
/// microbatches, as 1F1B's first rank does. Where the three passes take equally
/// long, the bubble is a third of 1F1B's.
CallList zeroBubble(const ScheduleShape &shape, int64_t rank) {
  auto count = int32_t(shape.microbatches);
  auto lag = int32_t(std::min<int64_t>(rank, count));
  CallList calls = inTurn(shape, rank, [lag](CallList &calls, int32_t m) {
    calls.push_back({Pass::InputGrad, 0, m});
    if (m >= lag)
      calls.push_back({Pass::WeightGrad, 0, m - lag});
  });
  for (int32_t m = count - lag; m < count; ++m)
    calls.push_back({Pass::WeightGrad, 0, m});
  return calls;
}

} // namespace dtc::schedule
