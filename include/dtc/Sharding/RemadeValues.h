// Which values a pass of a stage makes again instead of keeping them: short arithmetic on what it
// has anyway. The compiler takes passes apart by this, and the planner counts slots by it.
#pragma once

#include <cstdint>

namespace dtc::sharding {

/// So many ops' arithmetic in a row is made again within a kernel, at most.
inline constexpr int kMostRemadeLinks = 5;
/// What is so many times smaller than a value is kept, so that this one is made again of it.
inline constexpr int64_t kNegligibleBeside = 4;

} // namespace dtc::sharding
