#include "Emulator/Interpreter/Warp.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Block.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

Warp::Warp(Block &block, unsigned index, std::byte *registers, const Program &program)
    : owner(block), program(program), number(index), files{registers, program.constants.data()} {}

void Warp::start(uint32_t lanes) {
  live = lanes;
  epoch = 0;
  current = State::Running;
  paths.assign(1, {0, static_cast<uint32_t>(program.code.size()), lanes});
  for (const SpecialRegister &special : program.specials)
    write<uint32_t>(special.place, owner.special(special.special, number), kAllLanes);
}

uint64_t Warp::run() {
  uint64_t executed = 0;
  current = State::Running;
  while (current == State::Running) {
    Path &path = paths.back();
    if (path.pc == path.reconvergence) {
      popReconverged();
      continue;
    }
    const Instruction &at = program.code[path.pc++];
    uint32_t mask = path.mask;
    if (at.guard != kNoOperand)
      mask &= at.isGuardNegated ? ~readPredicate(at.guard) : readPredicate(at.guard);
    executed += std::popcount(mask);
    if (mask)
      at.execute(*this, at, mask);
  }
  return executed;
}

void Warp::popReconverged() {
  if (paths.size() == 1)
    fail(cuda::CUDA_ERROR_ILLEGAL_INSTRUCTION, program.code.back(), std::countr_zero(live),
         "control runs past the end of the kernel");
  paths.pop_back();
}

void Warp::branch(const Instruction &at, uint32_t taken) {
  Path &path = paths.back();
  uint32_t rest = path.mask & ~taken;
  Path parts[] = {{path.pc, 0, rest}, {at.target, 0, taken}};
  if (rest)
    part(at.reconvergence, parts, 2);
  else
    path.pc = at.target;
}

void Warp::branchIndirect(const Instruction &at, uint32_t mask) {
  Path &path = paths.back();
  const std::vector<uint32_t> &table = program.branchTables[at.immediate];
  Lanes<uint32_t> index = read<uint32_t>(at.operands[0]);
  std::vector<Path> parts;
  if (uint32_t rest = path.mask & ~mask)
    parts.push_back({path.pc, 0, rest});
  forLanes(mask, [&](unsigned lane) {
    if (index[lane] >= table.size())
      fail(cuda::CUDA_ERROR_ILLEGAL_INSTRUCTION, at, lane, "index ", index[lane],
           " is outside of the branch's targets");
    for (Path &part : parts)
      if (part.pc == table[index[lane]]) {
        part.mask |= 1u << lane;
        return;
      }
    parts.push_back({table[index[lane]], 0, 1u << lane});
  });
  if (parts.size() == 1)
    path.pc = parts.front().pc;
  else
    part(at.reconvergence, parts.data(), parts.size());
}

/// The present path waits where the parts meet again; each part becomes a path above it.
void Warp::part(uint32_t reconvergence, const Path *parts, size_t count) {
  paths.back().pc = reconvergence;
  if (reconvergence == paths.back().reconvergence)
    paths.pop_back(); // the path below waits there already
  for (size_t i = 0; i < count; ++i)
    if (parts[i].pc != reconvergence)
      paths.push_back({parts[i].pc, reconvergence, parts[i].mask});
}

void Warp::exit(const Instruction &, uint32_t lanes) {
  live &= ~lanes;
  for (Path &path : paths)
    path.mask &= live;
  std::erase_if(paths, [](const Path &path) { return path.mask == 0; });
  if (live == 0)
    current = State::Exited;
}

void Warp::arrive(const Instruction &at, uint32_t mask) {
  if (mask != live || owner.hasExited(*this))
    fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask),
         "divergent barrier: ", std::popcount(mask), " of the warp's ", owner.lanesOf(number),
         " threads arrive");
  waitsAt = &at;
  current = State::AtBarrier;
}

std::string Warp::place(const Instruction &at, unsigned lane) const {
  bool hasLine = at.line > 0 && static_cast<size_t>(at.line) <= program.lines.size();
  return concat("kernel ", program.name, ", PTX line ", at.line, " (",
                hasLine ? program.lines[at.line - 1] : "", "), block ", owner.position(),
                ", thread ", firstThread() + lane, ": ");
}

} // namespace dtc::emulator
