// Basic blocks, and where diverged lanes meet again.
#include "Emulator/PTX/ProgramBuilder.h"

namespace dtc::emulator::ptx {

namespace {

/// In the order of the code.
struct BasicBlock {
  uint32_t begin, end;
  std::vector<uint32_t> successors; // blocks; none where the block exits
};

std::vector<uint32_t> targetsOf(const Program &program, uint32_t at) {
  const dtc::emulator::Instruction &instruction = program.code[at];
  std::vector<uint32_t> targets;
  if (instruction.control == Control::Branch)
    targets.push_back(instruction.target);
  if (instruction.control == Control::IndirectBranch)
    targets = program.branchTables[instruction.immediate];
  bool isConditional = instruction.guard != kNoOperand;
  if (isConditional || instruction.control == Control::None ||
      instruction.control == Control::Barrier)
    targets.push_back(at + 1);
  return targets;
}

bool endsBlock(const dtc::emulator::Instruction &instruction) {
  return instruction.control != Control::None && instruction.control != Control::Barrier;
}

/// A truth for each block.
using Blocks = std::vector<bool>;

/// Post-dominators of each block, by iteration to a fixed point.
std::vector<Blocks> postDominators(const std::vector<BasicBlock> &blocks) {
  size_t count = blocks.size();
  std::vector<Blocks> sets(count, Blocks(count, true));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t block = count; block-- > 0;) {
      Blocks meet(count, !blocks[block].successors.empty());
      for (uint32_t successor : blocks[block].successors)
        for (size_t i = 0; i < count; ++i)
          meet[i] = meet[i] && sets[successor][i];
      meet[block] = true;
      if (meet != sets[block]) {
        sets[block] = std::move(meet);
        changed = true;
      }
    }
  }
  return sets;
}

std::vector<BasicBlock> basicBlocks(const Program &program) {
  uint32_t size = static_cast<uint32_t>(program.code.size());
  std::set<uint32_t> starts = {0};
  for (uint32_t at = 0; at < size; ++at)
    if (endsBlock(program.code[at])) {
      starts.insert(at + 1);
      for (uint32_t target : targetsOf(program, at))
        starts.insert(target);
    }
  starts.erase(size);
  std::vector<BasicBlock> blocks;
  std::map<uint32_t, uint32_t> numbers;
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    numbers[*start] = static_cast<uint32_t>(blocks.size());
    auto next = std::next(start);
    blocks.push_back({*start, next == starts.end() ? size : *next, {}});
  }
  for (BasicBlock &block : blocks)
    for (uint32_t target : targetsOf(program, block.end - 1))
      if (target < size)
        block.successors.push_back(numbers.at(target));
  return blocks;
}

} // namespace

void setReconvergence(Program &program) {
  std::vector<BasicBlock> blocks = basicBlocks(program);
  std::vector<Blocks> sets = postDominators(blocks);
  std::vector<size_t> counts;
  for (const Blocks &set : sets)
    counts.push_back(std::ranges::count(set, true));
  for (size_t block = 0; block < blocks.size(); ++block) {
    // The nearest of the strict post-dominators has the most post-dominators itself.
    size_t nearest = blocks.size();
    for (size_t other = 0; other < blocks.size(); ++other)
      if (other != block && sets[block][other] &&
          (nearest == blocks.size() || counts[other] > counts[nearest]))
        nearest = other;
    program.code[blocks[block].end - 1].reconvergence =
        nearest == blocks.size() ? static_cast<uint32_t>(program.code.size())
                                 : blocks[nearest].begin;
  }
}

} // namespace dtc::emulator::ptx
