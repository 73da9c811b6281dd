#include "dtc/Plan/Cost/CollectiveTimes.h"

#include <bit>

namespace dtc::plan {

double CollectiveTimes::Communicator::seconds(double bytes) {
  auto key = std::bit_cast<int64_t>(bytes); // not negative, as bytes aren't
  if (const double *found = known.find(key))
    return *found;
  return known.add(key) = model.collectiveSeconds(kind, shape, bytes);
}

CollectiveTimes::Communicator &CollectiveTimes::of(sharding::StepKind kind,
                                                   const GroupShape &shape) {
  for (Communicator &group : communicators)
    if (group.kind == kind && group.shape == shape)
      return group;
  return communicators.emplace_back(model, kind, shape);
}

} // namespace dtc::plan
