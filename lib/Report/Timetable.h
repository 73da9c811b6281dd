// The pipeline timetable: what every rank computes when, as a drawing.
//
// A short step is drawn call by call. A long one is drawn twice. The whole is drawn as columns that
// say which share of a moment goes into what. Its beginning and its end are drawn call by call.
// Sizes are bounded whatever the schedule.
#pragma once

#include "Html.h"

#include "dtc/Simulate/Simulate.h"

#include <array>

namespace dtc::report {

/// What a rank is seen to do.
enum class Activity : uint8_t { Forward, Backward, WeightGrad, Once, None };
Activity activityOf(simulate::EventKind kind);

/// Shares of time by activity in `bins` equal parts of [0, seconds], of one rank.
using Shares = std::vector<std::array<double, 4>>;
Shares sharesOf(const simulate::Timeline &timeline, int32_t rank, size_t bins);

/// Ranks that are drawn when there are `ranks` of them and room for `most`: the
/// first and the last.
std::vector<int32_t> rowsOf(size_t ranks, size_t most);

struct TimetableLimits {
  size_t callsInWhole = 110; ///< a rank's, drawn one by one
  size_t callsInWindow = 56; ///< about, of the beginning and the end
  size_t rows = 24, overviewRows = 48;
};

void drawTimetable(Html &html, const simulate::Timeline &timeline, int64_t chunks,
                   const TimetableLimits &limits = {});

} // namespace dtc::report
