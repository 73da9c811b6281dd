// How long steps of long schedules take, from short ones.
//
// Once a pipeline is full each microbatch adds the same time. Of 2,048 microbatches through 64
// ranks all but the first and the last few hundred run in the same rhythm. A step of many
// microbatches is therefore estimated from two shorter ones,
//
//   t(m) = t(3 P) + (m - 3 P) * (t(3 P) - t(2 P)) / P
//
// or what no such step falls below (simulate::lowerBound), if that is more. Where a slow rank lets
// others run ahead at first, its pace may set in only after that. It holds what the longer of the
// two holds. Plans that are chosen are predicted from the whole schedule. So are steps with a limit
// of kept microbatches that isn't the usual one (ScheduleShape::kept).
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <map>
#include <optional>

namespace dtc::plan {

struct StepEstimate {
  std::string error; ///< of the simulator; empty: there is none
  double seconds = 0;
  std::vector<double> peakBytes; ///< by rank
};

class StepEstimates {
public:
  /// `trains`: whether steps have a backward pass.
  explicit StepEstimates(bool trains) : trains(trains) {}

  /// A schedule that holds as many microbatches at once as one of this shape; null
  /// where there is none.
  const schedule::Schedule *likeSchedule(const schedule::ScheduleShape &shape);
  StepEstimate estimate(const schedule::ScheduleShape &shape, const simulate::Costs &costs);

private:
  const schedule::Schedule *schedule(const schedule::ScheduleShape &shape, int64_t microbatches);

  const bool trains;
  using Key = std::tuple<schedule::ScheduleKind, int64_t, int64_t, int64_t, int64_t>;
  std::map<Key, std::optional<schedule::Schedule>> schedules;
};

} // namespace dtc::plan
