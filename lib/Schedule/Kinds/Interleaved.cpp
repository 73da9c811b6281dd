#include "Kinds.h"

#include <algorithm>
#include <limits>

namespace dtc::schedule {

/// Interleaved 1F1B: groups of P microbatches pass chunk after chunk, so that the bubble is a C-th
/// of 1F1B's (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM, SC 2021, section 2.2). The order is that of Megatron-LM's
/// forward_backward_pipelining_with_interleaving. The groups are why microbatches must be a
/// multiple of ranks.
static CallList calls(const ScheduleShape &shape, int64_t rank) {
  int64_t ranks = shape.ranks, chunks = shape.chunks;
  int64_t total = shape.microbatches * chunks;
  int64_t warmup = std::min((ranks - rank - 1) * 2 + (chunks - 1) * ranks, total);
  // The n-th forward (backward) call of every rank.
  auto nth = [&](Pass pass, int64_t n) {
    int64_t chunk = n % (ranks * chunks) / ranks;
    int64_t microbatch = n / (ranks * chunks) * ranks + n % ranks;
    if (pass == Pass::Backward)
      chunk = chunks - 1 - chunk;
    return Call{pass, int32_t(chunk), int32_t(microbatch)};
  };
  CallList calls;
  for (int64_t n = 0; n < warmup; ++n)
    calls.push_back(nth(Pass::Forward, n));
  for (int64_t n = 0; n < total; ++n) {
    if (n + warmup < total)
      calls.push_back(nth(Pass::Forward, n + warmup));
    calls.push_back(nth(Pass::Backward, n));
  }
  return calls;
}

static std::string whyNot(const ScheduleShape &shape) {
  if (shape.microbatches % shape.ranks == 0)
    return "";
  return "an interleaved schedule needs a multiple of its " + std::to_string(shape.ranks) +
         " ranks as microbatches, got " + std::to_string(shape.microbatches);
}

const Descriptor kInterleaved = {
    .name = "interleaved",
    .about = "Interleaved 1F1B: each rank holds several stages (lighter and darker), so that a "
             "microbatch passes it several times and the pipeline fills sooner.",
    .mostChunks = std::numeric_limits<int64_t>::max(),
    .sendsBesideCalls = true,
    .unsupported = whyNot,
    .calls = calls};

} // namespace dtc::schedule
