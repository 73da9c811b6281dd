// Gradients of weights that several stages hold, of which each scatters its own part of the sum.
#pragma once

#include "dtc/Plan/Predict/StoredLiveness.h"

namespace dtc::plan {

/// Adds what is made first of a scattered gradient to the unit that makes it, where that isn't the
/// sum's: the head's part of a tied weight. Parts that come between lie in either stage, as a rule.
/// `keepsToEnd`: units keep what they scatter until the end of their stage, rather than until the
/// next scatter.
void addTiedGradients(StoredLiveness &stored, const RankExecution &execution,
                      const Problem &problem, const std::vector<int> &unitOfStep,
                      const StorageLevels &levels, bool keepsToEnd);

} // namespace dtc::plan
