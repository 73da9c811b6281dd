#include "Kinds.h"

#include "dtc/Schedule/Groups.h"

#include <algorithm>
#include <limits>

namespace dtc::schedule {

namespace {

/// All forward and all backward calls of a rank, each in order.
struct Passes {
  CallList forward, backward;
  std::vector<int64_t> ahead; ///< by backward call: the forward calls before it
};

} // namespace

int64_t leftOver(const ScheduleShape &shape) {
  bool inGroups = shape.kind == ScheduleKind::Interleaved && shape.chunks > 1;
  return inGroups ? shape.microbatches % shape.ranks : 0;
}

/// A group is as many microbatches as ranks. The last one also has what is left over: with fewer
/// microbatches than that, a rank would wait for what it sends later itself.
static Passes passes(const ScheduleShape &shape, int64_t rank) {
  const int64_t ranks = shape.ranks, chunks = shape.chunks, total = shape.microbatches * chunks;
  Passes result;
  for (int64_t begin = 0, end; begin < shape.microbatches; begin = end) {
    end = shape.microbatches - begin < 2 * ranks ? shape.microbatches : begin + ranks;
    // The last rank makes the forward calls of all chunks but one before it turns round, and each
    // rank before it two more.
    int64_t warmup = (ranks - rank - 1) * 2 + (chunks - 1) * std::max(end - begin, ranks);
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t microbatch = begin; microbatch < end; ++microbatch) {
        int64_t before = std::min(int64_t(result.backward.size()) + warmup + 1, total);
        result.ahead.push_back(before);
        result.forward.push_back({Pass::Forward, int32_t(chunk), int32_t(microbatch)});
        result.backward.push_back(
            {Pass::Backward, int32_t(chunks - 1 - chunk), int32_t(microbatch)});
      }
  }
  return result;
}

/// Interleaved 1F1B. Groups of P microbatches pass chunk after chunk, so that the bubble is a C-th
/// of 1F1B's. (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters
/// Using Megatron-LM, SC 2021, section 2.2.) The order is that of Megatron-LM's
/// forward_backward_pipelining_with_interleaving, which asks for a multiple of P.
static CallList calls(const ScheduleShape &shape, int64_t rank) {
  const Passes all = passes(shape, rank);
  CallList calls;
  auto next = all.forward.begin();
  for (size_t n = 0; n < all.backward.size(); ++n) {
    while (next - all.forward.begin() < all.ahead[n])
      calls.push_back(*next++);
    calls.push_back(all.backward[n]);
  }
  return calls;
}

const Descriptor kInterleaved = {
    .name = "interleaved",
    .about = "Interleaved 1F1B: each rank holds several stages (lighter and darker), so that a "
             "microbatch passes it several times and the pipeline fills sooner.",
    .mostChunks = std::numeric_limits<int64_t>::max(),
    .sendsBesideCalls = true,
    .calls = calls};

} // namespace dtc::schedule
