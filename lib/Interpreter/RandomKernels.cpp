// Random numbers.
#include "Kernels.h"

#include "dtc/Dialect/Graph/RandomOps.h"

#include <array>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::interpreter {

/// Rounds of Philox 4x32 (PhiloxOp): each half multiplies one word and mixes the other half in.
static uint32_t firstWord(uint64_t key, std::array<uint32_t, 4> counter) {
  constexpr std::array<uint64_t, 2> kFactors = {0xD2511F53, 0xCD9E8D57};
  constexpr std::array<uint32_t, 2> kSteps = {0x9E3779B9, 0xBB67AE85};
  std::array<uint32_t, 2> keys = {uint32_t(key), uint32_t(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    std::array<uint32_t, 4> next;
    for (int half = 0; half < 2; ++half) {
      const uint64_t product = kFactors[1 - half] * counter[2 - 2 * half];
      next[2 * half] = uint32_t(product >> 32) ^ counter[2 * half + 1] ^ keys[half];
      next[2 * half + 1] = uint32_t(product);
    }
    counter = next;
    for (int half = 0; half < 2; ++half)
      keys[half] += kSteps[half];
  }
  return counter[0];
}

static Tensor evaluateKernel(PhiloxOp op, Operands operands) {
  Tensor result(op.getType());
  for (auto [word, key, index] :
       llvm::zip_equal(result.ints, operands[0]->ints, operands[1]->ints)) {
    const auto at = static_cast<uint64_t>(index);
    word = firstWord(static_cast<uint64_t>(key), {uint32_t(at), uint32_t(at >> 32),
                                                  uint32_t(op.getNumber()), PhiloxOp::kStream});
  }
  return result;
}

void addRandomKernels(KernelTable &table) { table.add<PhiloxOp>(evaluateKernel); }

} // namespace dtc::interpreter
