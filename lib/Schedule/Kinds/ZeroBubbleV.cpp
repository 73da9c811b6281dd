#include "Kinds.h"

#include <algorithm>

namespace dtc::schedule {

namespace {

/// Lists the calls of a rank by counting the microbatches of each pass and chunk.
class Calls {
public:
  explicit Calls(int64_t microbatches) : most(int32_t(microbatches)) {}
  /// The next microbatch of this pass and chunk; what the step doesn't have is left out.
  void add(Pass pass, int32_t chunk) {
    int32_t microbatch = next[pass == Pass::Forward ? 0 : pass == Pass::InputGrad ? 1 : 2][chunk]++;
    if (microbatch < most)
      list.push_back({pass, chunk, microbatch});
  }
  void addBackward(int32_t chunk) {
    add(Pass::InputGrad, chunk);
    add(Pass::WeightGrad, chunk);
  }
  int32_t forwards(int32_t chunk) const { return next[0][chunk]; }
  bool owesWeights(int32_t chunk) const { return next[2][chunk] < next[1][chunk]; }
  CallList list;

private:
  int32_t most;
  int32_t next[3][2] = {}; ///< by pass and chunk
};

} // namespace

/// ZB-V (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 6). Rank r of P holds the
/// stages r and 2P - 1 - r. It fills with 2 (P - r) - 1 forward passes of the first and r of both
/// in turn. Then come P - r of the second, each followed by its backward pass. Then both take turns
/// until all forward passes are made. Gradients of weights that are left fill the end. Where the
/// passes take equally long, no rank waits, and each keeps the 2 P chunks that 1F1B's first rank
/// does.
static CallList calls(const ScheduleShape &shape, int64_t rank) {
  const int64_t after = shape.ranks - rank;
  // A shorter step is the beginning of one that fills the pipeline.
  const int64_t filling = std::max(2 * shape.ranks - 1, shape.microbatches);
  Calls calls(shape.microbatches);
  for (int64_t i = 0; i < 2 * after - 1; ++i)
    calls.add(Pass::Forward, 0);
  for (int64_t i = 0; i < rank; ++i) {
    calls.add(Pass::Forward, 1);
    calls.add(Pass::Forward, 0);
  }
  for (int64_t i = 0; i < after; ++i) {
    calls.add(Pass::Forward, 1);
    calls.addBackward(1);
  }
  while (calls.forwards(1) < filling) {
    if (calls.forwards(0) < filling)
      calls.add(Pass::Forward, 0);
    calls.addBackward(0);
    calls.add(Pass::Forward, 1);
    calls.addBackward(1);
  }
  for (int64_t i = 0; i < rank; ++i) {
    calls.add(Pass::InputGrad, 0);
    calls.add(Pass::InputGrad, 1);
  }
  for (int64_t i = 0; i < after; ++i)
    calls.addBackward(0);
  for (int32_t chunk : {1, 0})
    while (calls.owesWeights(chunk))
      calls.add(Pass::WeightGrad, chunk);
  return std::move(calls.list);
}

static Placement placement(const ScheduleShape &shape) {
  std::vector<std::vector<int64_t>> stages;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    stages.push_back({rank, 2 * shape.ranks - 1 - rank});
  return Placement(stages);
}

const Descriptor kZeroBubbleV = {
    .name = "zbv",
    .about = "V-shaped zero-bubble: each rank holds two stages, the first on the way there and the "
             "second on the way back, and computes gradients of weights where it would be idle.",
    .fewestChunks = 2,
    .mostChunks = 2,
    .isSearched = false,
    .sendsBesideCalls = true,
    .placement = placement,
    .calls = calls,
    .lateWeightGrads = lateWeightGradsOf<calls>};

} // namespace dtc::schedule
