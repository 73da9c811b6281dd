// Which programs give slots and messages places for a whole step, and are followed step by step.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::plan {

/// dtc's own. All others that are known, those of `Presets.yaml`, don't gather weights where that
/// moves less, and are priced as they were calibrated.
inline bool hasPlaces(const Software &software) {
  return software.placesMemory() && software.gathersWeights;
}

} // namespace dtc::plan
