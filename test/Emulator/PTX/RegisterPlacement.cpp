// Liveness of virtual registers, and their places in a warp's memory.
#include "Emulator/PTX/BitSet.h"
#include "Emulator/PTX/ProgramBuilder.h"

#include <queue>

namespace dtc::emulator::ptx {

namespace {

using Code = std::vector<dtc::emulator::Instruction>;

struct Life {
  uint32_t begin = ~uint32_t(0), end = 0; // positions, both inclusive

  void extend(uint32_t position) {
    begin = std::min(begin, position);
    end = std::max(end, position);
  }
};

bool isRegister(OperandCode operand) { return !(operand & kConstant) && operand != kNoOperand; }

/// Calls `use` for each register that an instruction reads. A guarded instruction leaves the
/// results of other lanes as they were, and so counts as reading them.
template <typename Use> void forUses(const dtc::emulator::Instruction &instruction, Use &&use) {
  if (instruction.guard != kNoOperand)
    use(instruction.guard);
  unsigned first = instruction.guard != kNoOperand ? 0 : instruction.destinations;
  for (unsigned i = first; i < instruction.operandCount; ++i)
    if (isRegister(instruction.operands[i]))
      use(instruction.operands[i]);
}

/// The registers that are live where each block begins.
std::vector<BitSet> liveAtBegin(const Code &code, const std::vector<BasicBlock> &blocks,
                                size_t registers) {
  std::vector<BitSet> live(blocks.size(), BitSet(registers));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t block = blocks.size(); block-- > 0;) {
      BitSet now(registers);
      for (uint32_t successor : blocks[block].successors)
        now.unite(live[successor]);
      for (uint32_t at = blocks[block].end; at-- > blocks[block].begin;) {
        for (unsigned i = 0; i < code[at].destinations; ++i)
          now.erase(code[at].operands[i]);
        forUses(code[at], [&](OperandCode used) { now.insert(used); });
      }
      if (now != live[block]) {
        live[block] = std::move(now);
        changed = true;
      }
    }
  }
  return live;
}

std::vector<Life> livesOf(const Program &program, const std::vector<VirtualRegister> &registers) {
  std::vector<BasicBlock> blocks = basicBlocks(program);
  auto live = liveAtBegin(program.code, blocks, registers.size());
  std::vector<Life> lives(registers.size());
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (size_t i = 0; i < registers.size(); ++i) {
      if (live[block].contains(i))
        lives[i].extend(blocks[block].begin);
      for (uint32_t successor : blocks[block].successors)
        if (live[successor].contains(i))
          lives[i].extend(blocks[block].end - 1);
    }
    for (uint32_t at = blocks[block].begin; at < blocks[block].end; ++at) {
      for (unsigned i = 0; i < program.code[at].destinations; ++i)
        lives[program.code[at].operands[i]].extend(at);
      forUses(program.code[at], [&](OperandCode used) { lives[used].extend(at); });
    }
  }
  for (size_t i = 0; i < registers.size(); ++i)
    if (registers[i].special)
      lives[i] = {0, static_cast<uint32_t>(program.code.size())};
  return lives;
}

uint32_t placeBytes(const VirtualRegister &reg) { return reg.bytes == 0 ? 64 : reg.bytes * 32; }

/// Linear scan: the lives in the order of their begins, with lists of free places by size.
std::vector<uint32_t> assign(const std::vector<VirtualRegister> &registers,
                             const std::vector<Life> &lives, uint32_t &total) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < registers.size(); ++i)
    if (lives[i].begin <= lives[i].end)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return lives[a].begin < lives[b].begin; });
  std::map<uint32_t, std::vector<uint32_t>> free;
  using Ending = std::pair<uint32_t, uint32_t>; // position, register
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::vector<uint32_t> places(registers.size(), 0);
  for (uint32_t number : order) {
    // A place is free again behind its last use: handlers may write before they have read all.
    while (!active.empty() && active.top().first < lives[number].begin) {
      uint32_t done = active.top().second;
      free[placeBytes(registers[done])].push_back(places[done]);
      active.pop();
    }
    std::vector<uint32_t> &fitting = free[placeBytes(registers[number])];
    if (fitting.empty()) {
      places[number] = total;
      total += placeBytes(registers[number]);
    } else {
      places[number] = fitting.back();
      fitting.pop_back();
    }
    active.push({lives[number].end, number});
  }
  return places;
}

} // namespace

void placeRegisters(Program &program, const std::vector<VirtualRegister> &registers) {
  program.registerBytes = 0;
  std::vector<uint32_t> places =
      assign(registers, livesOf(program, registers), program.registerBytes);
  for (dtc::emulator::Instruction &instruction : program.code) {
    if (instruction.guard != kNoOperand)
      instruction.guard = places[instruction.guard];
    for (unsigned i = 0; i < instruction.operandCount; ++i)
      if (isRegister(instruction.operands[i]))
        instruction.operands[i] = places[instruction.operands[i]];
  }
  for (uint32_t i = 0; i < registers.size(); ++i)
    if (registers[i].special)
      program.specials.push_back({*registers[i].special, places[i]});
  program.registerBytes = (program.registerBytes + 255) / 256 * 256;
}

} // namespace dtc::emulator::ptx
