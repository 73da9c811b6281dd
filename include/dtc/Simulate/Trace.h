// A timeline as a file that Perfetto (ui.perfetto.dev) and chrome://tracing show.
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <ostream>

namespace dtc::simulate {

/// What a trace calls its parts; any text.
struct TraceNames {
  std::string title;              ///< of the whole
  std::vector<std::string> ranks; ///< "rank R" where there are too few
};

/// Writes the JSON object of the Trace Event Format (Google, 2016). Each rank is a process with
/// threads for its calls, its communication stream and what it sends, and a counter of its memory.
/// Arrows lead from what is sent to the call that waits for it. Times are microseconds of the step.
/// `timeline` was simulated with a trace; without one only names are written.
void writeTrace(std::ostream &out, const Timeline &timeline, const TraceNames &names = {});

} // namespace dtc::simulate
