// What the seconds of a step are spent on.
#pragma once

#include "dtc/Plan/Predict/Prediction.h"
#include "dtc/Simulate/Simulate.h"

#include <map>

namespace dtc::plan {

/// A simulated step, and its communication by the degrees whose ranks take part
/// ("tp"); seconds of a step, summed over the ranks of the pipeline.
struct SimulatedStep {
  const simulate::Timeline &timeline;
  const simulate::Costs &costs;
  const schedule::Schedule &schedule;
  std::map<std::string, double> inside; ///< between ops: computation waits for all of it
  std::map<std::string, double> data;   ///< of parameters and gradients: some of it is hidden
  double tied = 0; ///< gradients of weights that several stages hold
};

/// Communication between ops is exposed in full. Of the rest, what would be exposed if stages sent
/// for free is of parameters and gradients. Where several degrees exchange them it is theirs in
/// proportion to their seconds. What sending adds is of "pp".
StepParts stepParts(const SimulatedStep &step);

} // namespace dtc::plan
