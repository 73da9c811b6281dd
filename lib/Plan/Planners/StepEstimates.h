// How long steps of long schedules take, from short ones.
//
// Once a pipeline is full each microbatch adds the same time: of 2,048 microbatches
// through 64 ranks all but the first and the last few hundred run in the same
// rhythm. A step of many microbatches is therefore estimated from two shorter ones,
//
//   t(m) = t(3 P) + (m - 3 P) * (t(3 P) - t(2 P)) / P
//
// and holds what the longer of them holds. Plans that are chosen are
// predicted from the whole schedule.
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <map>
#include <optional>

namespace dtc::plan {

struct StepEstimate {
  double seconds = 0;
  std::vector<double> peakBytes; ///< by rank
};

class StepEstimates {
public:
  /// A schedule that holds as many microbatches at once as one of this shape; null
  /// where there is none.
  const pipeline::Schedule *likeSchedule(const pipeline::ScheduleShape &shape);
  StepEstimate estimate(const pipeline::ScheduleShape &shape, const simulate::Costs &costs);

private:
  const pipeline::Schedule *schedule(const pipeline::ScheduleShape &shape, int64_t microbatches);

  using Key = std::tuple<pipeline::ScheduleKind, int64_t, int64_t, int64_t>;
  std::map<Key, std::optional<pipeline::Schedule>> schedules;
};

} // namespace dtc::plan
