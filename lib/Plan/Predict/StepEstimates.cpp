#include "dtc/Plan/Predict/StepEstimates.h"

#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/ForwardPasses.h"
#include "dtc/Schedule/Groups.h"

#include <algorithm>

namespace dtc::plan {

/// Microbatches of the shorter and the longer schedule, for each pipeline rank; those
/// of less than twice the longer one are carried out whole.
static constexpr int64_t kShort = 2, kLong = 3;

/// With other limits of kept microbatches, ranks wait in rhythms that short schedules don't tell.
static bool keepsAsUsual(const schedule::ScheduleShape &shape) {
  return shape.kept == 0 || shape.kept == describe(shape.kind).usuallyKept(shape.ranks);
}

static bool isLong(const schedule::ScheduleShape &shape) {
  return !describe(shape.kind).keepsAll && keepsAsUsual(shape) &&
         shape.microbatches > 2 * kLong * shape.ranks;
}

/// A shorter schedule ends as the whole one does.
static int64_t groups(const schedule::ScheduleShape &shape, int64_t count) {
  return count * shape.ranks + leftOver(shape);
}

const schedule::Schedule *StepEstimates::schedule(const schedule::ScheduleShape &shape,
                                                  int64_t microbatches) {
  schedule::ScheduleShape asked = shape;
  asked.microbatches = microbatches;
  auto [it, isNew] =
      schedules.try_emplace({shape.kind, shape.ranks, shape.chunks, microbatches, shape.kept});
  if (isNew)
    if (auto made = schedule::makeSchedule(asked, trains))
      it->second = std::move(*made);
  return it->second ? &*it->second : nullptr;
}

const schedule::Schedule *StepEstimates::likeSchedule(const schedule::ScheduleShape &shape) {
  if (!schedule::unsupported(shape).empty())
    return nullptr;
  return schedule(shape, isLong(shape) ? groups(shape, kLong) : shape.microbatches);
}

static StepEstimate summarize(const simulate::Timeline &timeline) {
  StepEstimate result{timeline.error, timeline.stepSeconds, {}};
  for (const simulate::RankTimeline &rank : timeline.ranks)
    result.peakBytes.push_back(rank.peakBytes);
  return result;
}

StepEstimate StepEstimates::estimate(const schedule::ScheduleShape &shape,
                                     const simulate::Costs &costs) {
  StepEstimate whole = summarize(simulate::simulate(*likeSchedule(shape), costs));
  if (!isLong(shape) || !whole.error.empty())
    return whole;
  StepEstimate part = summarize(simulate::simulate(*schedule(shape, groups(shape, kShort)), costs));
  double each = (whole.seconds - part.seconds) / double((kLong - kShort) * shape.ranks);
  whole.seconds += double(shape.microbatches - groups(shape, kLong)) * each;
  whole.seconds = std::max(whole.seconds, simulate::lowerBound(shape, costs));
  return whole;
}

} // namespace dtc::plan
