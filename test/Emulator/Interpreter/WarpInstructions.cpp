// What lanes of a warp do together: shuffles, ballots, matches and barriers.
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Block.h"
#include "Emulator/Interpreter/Instructions.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

/// All lanes that a mask operand names must be here, and every lane here must be named.
void requireMembers(Warp &warp, const Instruction &at, uint32_t mask, OperandCode operand) {
  Lanes<uint32_t> masks = warp.read<uint32_t>(operand);
  uint32_t members = masks[std::countr_zero(mask)];
  forLanes(mask, [&](unsigned lane) {
    if (masks[lane] != members || !(members >> lane & 1))
      warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, lane, "its member mask is ", hex(masks[lane]),
                ", which differs among lanes or lacks this one");
  });
  if (uint32_t missing = members & warp.liveLanes() & ~mask)
    warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask), "divergent: lanes ",
              hex(missing), " of its member mask aren't here");
}

/// Operands: result, value, lanes' difference, clamp and segments, members.
void shuffleButterfly(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[4]);
  Lanes<uint32_t> a = warp.read<uint32_t>(at.operands[1]), b = warp.read<uint32_t>(at.operands[2]),
                  c = warp.read<uint32_t>(at.operands[3]), result = a;
  forLanes(mask, [&](unsigned lane) {
    uint32_t clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
    uint32_t source = lane ^ (b[lane] & 31), last = (lane & segment) | (clamp & ~segment);
    if (source > last)
      return;
    if (!(mask >> source & 1))
      warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, lane, "it reads lane ", source,
                ", which doesn't take part");
    result[lane] = a[source];
  });
  warp.write<uint32_t>(at.operands[0], result, mask);
}

void ballot(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[2]);
  uint32_t votes = warp.readPredicate(at.operands[1]) & mask;
  warp.write<uint32_t>(at.operands[0], Lanes<uint32_t>(votes), mask);
}

void matchAny(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[2]);
  Lanes<uint32_t> value = warp.read<uint32_t>(at.operands[1]), result;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    result[lane] = maskOf(value == value[lane]) & mask;
  warp.write<uint32_t>(at.operands[0], result, mask);
}

/// A barrier among the lanes that its mask names.
void warpBarrier(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[0]);
  ++warp.epoch;
}

} // namespace

void addWarpInstructions(InstructionTable &table) {
  using Word = uint32_t;
  table.emplace("shfl.sync.bfly.b32", RowOf<Word(Word, Word, Word, Word)>::with(shuffleButterfly));
  table.emplace("vote.sync.ballot.b32", RowOf<Word(bool, Word)>::with(ballot));
  table.emplace("match.any.sync.b32", RowOf<Word(Word, Word)>::with(matchAny));
  table.emplace("bar.warp.sync", RowOf<void(Word)>::with(warpBarrier));
}

} // namespace dtc::emulator
