// Branches, barriers, fences, and the end of a thread.
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Block.h"
#include "Emulator/Interpreter/Elementwise.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

/// Blocks are carried out one after another, and their memory is consistent at every moment.
void nothing(Warp &, const Instruction &, uint32_t) {}

void trap(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask), "trap");
}

Instruction decodeBranch(InstructionBuilder &builder) {
  builder.take("uni");
  if (builder.operand(0).kind != ptx::Operand::Kind::Symbol)
    builder.refuse("it has no label");
  builder.result().control = Control::Branch;
  builder.result().target = builder.branchTarget(builder.operand(0).name);
  return builder.finish(nullptr);
}

Instruction decodeIndirectBranch(InstructionBuilder &builder) {
  if (!builder.take("idx"))
    builder.refuse("only brx.idx is known");
  builder.take("uni");
  builder.input(builder.operand(0), 4);
  builder.result().control = Control::IndirectBranch;
  builder.result().immediate = builder.branchTable(builder.operand(1).name);
  return builder.finish(nullptr);
}

Instruction decodeExit(InstructionBuilder &builder) {
  builder.take("uni");
  builder.result().control = Control::Exit;
  return builder.finish(nullptr);
}

/// bar.warp.sync: a barrier among the lanes that its mask names.
void warpBarrier(Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t members = warp.read<uint32_t>(at.operands[0])[std::countr_zero(mask)];
  if (members & warp.liveLanes() & ~mask)
    warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask),
              "divergent barrier: lanes " + hex(members & warp.liveLanes() & ~mask) +
                  " that its mask names don't arrive");
  ++warp.epoch;
}

Instruction decodeBarrier(InstructionBuilder &builder) {
  if (builder.take("warp")) {
    if (!builder.take("sync"))
      builder.refuse("only bar.warp.sync is known");
    builder.input(builder.operand(0), 4);
    return builder.finish(warpBarrier);
  }
  builder.take("cta");
  builder.take("aligned");
  if (!builder.take("sync"))
    builder.refuse("only .sync is supported");
  if (builder.operandCount() != 1 || builder.operand(0).kind != ptx::Operand::Kind::Integer)
    builder.refuse("only barriers of all threads, with a constant number, are supported");
  if (builder.operand(0).bits > 15)
    builder.refuse("a block has 16 barriers");
  builder.result().immediate = static_cast<int64_t>(builder.operand(0).bits);
  builder.result().control = Control::Barrier;
  return builder.finish(nullptr);
}

Instruction decodeFence(InstructionBuilder &builder) {
  while (!builder.takeOneOf({"gl", "cta", "sys", "gpu", "acq_rel", "sc", "acquire", "release"})
              .empty()) {
  }
  return builder.finish(nothing);
}

} // namespace

void addControlInstructions(DecodeTable &table) {
  table["bra"] = decodeBranch;
  table["brx"] = decodeIndirectBranch;
  table["ret"] = table["exit"] = decodeExit;
  table["trap"] = [](InstructionBuilder &builder) { return builder.finish(trap); };
  table["bar"] = table["barrier"] = decodeBarrier;
  table["membar"] = table["fence"] = decodeFence;
}

} // namespace dtc::emulator
