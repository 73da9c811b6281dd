// Products of the tensor cores: what the lanes of a warp have of 16 x 8 sums, and add to them.
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Instructions.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

constexpr unsigned kRows = 16, kColumns = 8, kDepth = 16;

/// The halves of registers that follow each other, as (register, half, lane).
template <HalfKind Kind, unsigned Count>
void readHalves(const Warp &warp, const OperandCode *places, float (&halves)[Count][2][kLanes]) {
  for (unsigned i = 0; i < Count; ++i)
    for (unsigned half = 0; half < 2; ++half) {
      Lanes<uint32_t> words = warp.read<uint32_t>(places[i]) >> (16 * half);
      Lanes<float> wide = widen<Kind>(convert<uint16_t, uint32_t>(words));
      std::memcpy(halves[i][half], &wide, sizeof(wide));
    }
}

/// Operands: four results, four registers of 16 x 16 halves, two of 16 x 8, and four sums. The
/// layout is that of PTX's section on mma.m16n8k16.
template <HalfKind Kind> void multiply(Warp &warp, const Instruction &at, uint32_t mask) {
  if (mask != kAllLanes)
    warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask),
              "divergent: not all lanes multiply");
  float lhs[4][2][kLanes], rhs[2][2][kLanes];
  readHalves<Kind>(warp, &at.operands[4], lhs);
  readHalves<Kind>(warp, &at.operands[8], rhs);
  double a[kRows][kDepth], b[kDepth][kColumns], sums[kRows][kColumns] = {};
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned inner = lane % 4 * 2 + half;
      for (unsigned i = 0; i < 4; ++i)
        a[lane / 4 + i % 2 * 8][inner + i / 2 * 8] = lhs[i][half][lane];
      for (unsigned i = 0; i < 2; ++i)
        b[inner + i * 8][lane / 4] = rhs[i][half][lane];
    }
  for (unsigned row = 0; row < kRows; ++row)
    for (unsigned k = 0; k < kDepth; ++k)
      for (unsigned column = 0; column < kColumns; ++column)
        sums[row][column] += a[row][k] * b[k][column];
  for (unsigned i = 0; i < 4; ++i) {
    Lanes<float> result = warp.read<float>(at.operands[10 + i]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      result[lane] =
          static_cast<float>(result[lane] + sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
    warp.write<float>(at.operands[i], result, mask);
  }
}

} // namespace

void addMatrixInstructions(InstructionTable &table) {
  const std::string name = "mma.sync.aligned.m16n8k16.row.col.f32.";
  const std::vector<unsigned> words(14, 4);
  table.emplace(name + "bf16.bf16.f32", InstructionRow{multiply<HalfKind::BF16>, 4, words});
  table.emplace(name + "f16.f16.f32", InstructionRow{multiply<HalfKind::F16>, 4, words});
}

} // namespace dtc::emulator
