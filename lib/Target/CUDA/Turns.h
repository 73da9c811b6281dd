// Units of a pointwise kernel that read the same, done by one thread.
//
// Rotary positions multiply every head by the sines and cosines of its position, and exchange the
// halves of each head. With heads of 128 bf16, a thread of units of 8 would read 64 bytes of tables
// for 16 of a head, and which half it is in it would find out as it runs. Instead it does
//
//     8 turns, 64 elements apart: both halves of four heads
//
// so that each element of the tables and of the heads is read once, and it is known for each turn
// which half it is.
#pragma once

#include "KernelPlan.h"

namespace dtc::cuda {

/// Gives the threads of a pointwise kernel turns where they then read half as often or less.
void planTurns(const BodyInfo &info, KernelPlan &plan);

} // namespace dtc::cuda
