// In which calls a stage sums gradients over ranks, as its last backward pass makes them.
//
// Few large calls have little latency; several let all but the last go beside computation. So
// there are as many as buckets of a good size. Where that is less than four there are four, if each
// has some bytes:
//
//   KiB of gradients, made in this order      320 64 64 64 64 64      sum 640
//   four calls of 160 KiB, where that can be  320|64 64 64|64|64
//
// The number depends on the sum alone and the buckets on the order. So the planner, which doesn't
// know the order, prices as many calls as programs make.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtc::schedule {

/// A ring passes each bucket on in as many steps as it has ranks. That only pays for long ones
/// (Megatron-LM's distributed optimizer takes a million elements a rank).
constexpr double kBucketBytes = 25e6, kRankBucketBytes = 2e6;

/// Latency is most of what a smaller sum takes.
constexpr double kLeastBytes = 128 << 10;

/// How many buckets of a good size there are among so many ranks; at least one.
int64_t countBuckets(double bytes, int64_t ranks);

/// In how many calls so many gradients are summed.
int64_t countGradientSums(int64_t gradients, double bytes, int64_t ranks);

/// Splits gradients into that many calls, in the order in which they are made: for each call, the
/// number of gradients up to its end.
std::vector<size_t> splitGradients(std::span<const int64_t> bytes, int64_t calls);

} // namespace dtc::schedule
