// Where diverged lanes meet again: at the immediate post-dominator of their branch.
#include "Emulator/PTX/ProgramBuilder.h"

namespace dtc::emulator::ptx {

namespace {

using Numbers = std::vector<uint32_t>;
constexpr uint32_t kNone = ~0u;

/// The instructions that may follow one. The end of the code follows an exit.
Numbers successorsOf(const Program &program, uint32_t at) {
  const dtc::emulator::Instruction &instruction = program.code[at];
  Numbers all;
  if (instruction.control == Control::Branch)
    all.push_back(instruction.target);
  if (instruction.control == Control::IndirectBranch)
    all = program.branchTables[instruction.immediate];
  if (instruction.guard != kNoOperand || instruction.control == Control::None ||
      instruction.control == Control::Barrier)
    all.push_back(at + 1);
  if (all.empty())
    all.push_back(static_cast<uint32_t>(program.code.size()));
  return all;
}

/// In the order in which a walk from the end backwards leaves them.
Numbers orderFromEnd(const std::vector<Numbers> &predecessors) {
  std::vector<bool> isSeen(predecessors.size(), false);
  Numbers order;
  std::vector<std::pair<uint32_t, size_t>> path = {{predecessors.size() - 1, 0}};
  isSeen[predecessors.size() - 1] = true;
  while (!path.empty()) {
    auto &[at, next] = path.back();
    if (next == predecessors[at].size()) {
      order.push_back(at);
      path.pop_back();
    } else if (uint32_t before = predecessors[at][next++]; !isSeen[before]) {
      isSeen[before] = true;
      path.emplace_back(before, 0);
    }
  }
  return order;
}

} // namespace

/// By the algorithm of Cooper, Harvey and Kennedy.
void setReconvergence(Program &program) {
  const auto end = static_cast<uint32_t>(program.code.size());
  std::vector<Numbers> successors, predecessors(end + 1);
  for (uint32_t at = 0; at < end; ++at) {
    successors.push_back(successorsOf(program, at));
    for (uint32_t next : successors.back())
      predecessors[next].push_back(at);
  }
  Numbers order = orderFromEnd(predecessors), places(end + 1, 0), nearest(end + 1, kNone);
  for (uint32_t place = 0; place < order.size(); ++place)
    places[order[place]] = place;
  nearest[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t place = order.size() - 1; place-- > 0;) {
      uint32_t meet = kNone;
      for (uint32_t next : successors[order[place]])
        if (meet == kNone || nearest[next] == kNone)
          meet = nearest[next] == kNone ? meet : next;
        else
          while (meet != next)
            places[meet] < places[next] ? meet = nearest[meet] : next = nearest[next];
      changed |= meet != nearest[order[place]];
      nearest[order[place]] = meet;
    }
  }
  for (uint32_t at = 0; at < end; ++at)
    program.code[at].reconvergence = nearest[at] == kNone ? end : nearest[at];
}

} // namespace dtc::emulator::ptx
