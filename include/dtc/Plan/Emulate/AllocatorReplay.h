// What a rank takes of its device when PyTorch's allocator hands out its memory: the
// requests of its first two steps, in order.
//
// Parameters, and what else is there from the start, come first. Each call then allocates and frees
// as StageAllocations says, for as many microbatches at a time as the schedule has under way. The
// update comes last, with its temporaries. The second step finds the cache as the first left it;
// later ones repeat it.
#pragma once

#include "dtc/Plan/Emulate/AllocationEvents.h"
#include "dtc/Schedule/Schedule.h"

namespace dtc::plan {

/// How long gradients in the parameters' type stay.
enum class GradientLife : uint8_t {
  Added,      ///< until they are added to a sum that is there from the start
  Microbatch, ///< beside that sum until the next backward pass of the stage
  Step        ///< those of the first microbatch, until the update is over: others are added to them
};

struct RankRequests {
  std::vector<int64_t> initial;  ///< before `resident`, and freed then
  std::vector<int64_t> resident; ///< from the start to the end
  std::vector<int64_t> states;   ///< from the first update on
  /// Each update's temporaries: for the gradients' norm, for the update and, when
  /// gradients are gone, after it.
  std::vector<int64_t> norm, update, after;
  /// Between `norm` and `update`, each gone before the next.
  std::vector<int64_t> casts;
  std::vector<StageAllocations> stages; ///< by chunk
  /// By chunk, in the order of a forward call: what each pass gathers (ZeRO-3), and what
  /// a backward one scatters, on streams of their own. Two at a time: while one is used,
  /// the next is on its way.
  std::vector<std::vector<int64_t>> gathered, scattered;
  GradientLife gradients = GradientLife::Added;
  bool updatesFirst = false; ///< once before the first step
  /// What an fp32 copy of a gradient that stays for a microbatch takes of the gradient. It is added
  /// to the sum by way of one.
  double sumShare = 2;
  /// So many tensors of a forward pass may be held beyond their last use. A function of a program
  /// in Python holds what is in its variables until it returns.
  size_t held = 0;
};

/// The most that the allocator holds of a device with `capacity` bytes for the calls of one rank;
/// nullopt: it runs out of memory. Which tensors are held isn't known, and fragments depend on it.
/// So none, then one, and so on up to `held` of them are, the last ones released. The largest of
/// these peaks counts. The program runs out of memory if it does so while none is held.
std::optional<int64_t> peakReserved(const RankRequests &rank,
                                    const std::vector<schedule::Call> &calls, int64_t capacity);

/// By rank, its calls of a step with fewer microbatches, of which as many are under way.
std::vector<std::vector<schedule::Call>> shortened(const schedule::Schedule &whole);

} // namespace dtc::plan
