// Independent pieces of a search on all processors.
#pragma once

#include <cstddef>
#include <functional>

namespace dtc::plan {

/// Calls `job` once with each number below `count`, on as many threads as there are processors
/// (fewer where the system refuses them), and returns when all calls have. What they find must
/// not depend on their order.
void inParallel(size_t count, const std::function<void(size_t)> &job);

} // namespace dtc::plan
