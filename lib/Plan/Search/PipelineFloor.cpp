#include "PipelineFloor.h"

#include "dtc/Schedule/Descriptor.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

/// `share` of each stage's `work` being on the way to the ranks after it.
static double evenFloor(double work, double share, double microbatches, double ranks) {
  return share * work / (1 - std::pow(1 - share / microbatches, ranks));
}

/// Whether stages of any parts of units can be such that a rank isn't known to take longer. This is
/// for schedules that split the backward pass. Each takes as much as it can. One that took less
/// would have more of the way before it, and more left for those behind it. `lateByRank`:
/// microbatches whose gradients of weights come last.
static bool canKeepWithin(const UnitCosts &unitCosts, const Degrees &degrees,
                          const std::vector<int64_t> &lateByRank, double limit) {
  auto microbatches = double(degrees.numMicrobatches);
  int unit = 0;
  double part = 0, forward = 0, around = 0; // of the unit: taken; there, and there and back
  for (int64_t rank = 0; rank < degrees.pp && around <= limit; ++rank) {
    auto late = double(lateByRank[static_cast<size_t>(rank)]);
    double room = limit - forward, roomBack = limit - around;
    for (; unit < unitCosts.units(); part = 0, ++unit) {
      PassSeconds whole = unitCosts.seconds(unit, unit + 1);
      double all = microbatches * (whole.forward + whole.backward());
      double early = all - late * whole.weightGrad;
      double most = std::min(all > room ? room / all : 1, early > roomBack ? roomBack / early : 1);
      double taken = std::min(1 - part, most);
      forward += taken * whole.forward;
      around += taken * (whole.forward + whole.recompute + whole.inputGrad);
      room -= taken * all;
      roomBack -= taken * early;
      if (most < 1 - part) {
        part += taken;
        break;
      }
    }
  }
  return unit == unitCosts.units();
}

static double splitFloor(const UnitCosts &unitCosts, const Degrees &degrees, double work) {
  constexpr int halvings = 10;
  const schedule::ScheduleShape shape = scheduleShape(degrees);
  std::vector<int64_t> late;
  for (int64_t rank = 0; rank < degrees.pp; ++rank)
    late.push_back(describe(degrees.schedule).lateWeightGrads(shape, rank, 0));
  double floor = double(degrees.numMicrobatches) * work / double(degrees.pp);
  double enough = floor + unitCosts.seconds(0, unitCosts.units()).forward;
  for (int i = 0; i < halvings; ++i) {
    double middle = (floor + enough) / 2;
    (canKeepWithin(unitCosts, degrees, late, middle) ? enough : floor) = middle;
  }
  return floor;
}

/// The first rank begins no microbatch before another one is over, so many before it.
static double keptFloor(const PassSeconds &all, const Degrees &degrees) {
  if (degrees.kept == 0)
    return 0;
  const int64_t before = (degrees.numMicrobatches - 1) / degrees.kept;
  return double(1 + before) * (all.forward + all.recompute + all.inputGrad);
}

double pipelineFloor(const UnitCosts &unitCosts, const Degrees &degrees) {
  PassSeconds all = unitCosts.seconds(0, unitCosts.units());
  double work = all.forward + all.backward();
  auto microbatches = double(degrees.numMicrobatches), ranks = double(degrees.pp);
  if (degrees.pp <= 1)
    return microbatches * work;
  if (!describe(degrees.schedule).splitsBackward())
    return evenFloor(work, 1 / double(degrees.chunks), microbatches, ranks);
  if (degrees.chunks > 1)
    return microbatches * work / ranks;
  return std::max(splitFloor(unitCosts, degrees, work), keptFloor(all, degrees));
}

} // namespace dtc::plan
