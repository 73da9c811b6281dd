// How many terms of a weight's gradient a function adds up by one sum.
//
// A table that encoder, decoder and head share has three. Layers that share a weight may make one
// each, far apart: of more than three each is added as soon as it is made (Kernels/SumInTurn.h), so
// that none waits for the last.
//
// The compiler forms sums by this, and the planner predicts memory by it.
#pragma once

#include <cstdint>

namespace dtc::sharding {

inline constexpr int64_t kMostSummedTogether = 3;

} // namespace dtc::sharding
