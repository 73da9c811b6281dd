// Independent pieces of a search on all processors.
#pragma once

#include <cstddef>
#include <functional>

namespace dtc::plan {

/// Calls `job` once with each number below `count`, and returns when all calls have. It uses as
/// many threads as there are processors, or fewer where the system refuses them. What they find
/// must not depend on their order.
void inParallel(size_t count, const std::function<void(size_t)> &job);

} // namespace dtc::plan
