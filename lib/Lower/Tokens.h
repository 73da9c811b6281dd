// Who waits for whom: the tokens of a program, from its instructions and values.
//
// Queues know nothing of each other. So what the order of a function said must be said by tokens
// where instructions of different queues touch the same memory.
//
// Within a function. What is started on another queue follows all that was computed before it. The
// last instruction of the compute queue before it signals a token (one for the program: "computed")
// that it waits for. What comes after an exec.wait waits for a token of its own. So does a
// collective that reads what one of another queue makes. So does the end of the function for what
// nothing waited for: an empty instruction where nothing is left to compute.
//
//   0 compute     matmul                      signals 0 (computed)
//   1 collective  all_reduce     waits 0      signals 1
//   2 compute     launch
//   3 compute     launch         waits 1      behind exec.wait
//
// Between functions. Messages stay in flight, in places of the inbox and outbox. Each place may be
// touched in one function on one queue and in another on another. What touches it first signals
// when its last instruction is done. What touches it next waits before its first:
//
//   receive  receive queue   writes inbox    waits 3      signals 2 (scope inbox)
//   step     compute         reads inbox     waits 2      signals 3
#pragma once

#include "dtc-rt/Program_generated.h"

#include <vector>

namespace dtc::lower {

/// An exec.wait: instructions from `before` on follow the arrival of a value.
struct Arrival {
  size_t before = 0;
  uint32_t value = 0;
};

/// Sets waits and signals of all instructions, whose queues, reads and writes are known;
/// `arrivals` by function. Bindings must be there.
void addTokens(rt::fbs::ProgramT &program, const std::vector<std::vector<Arrival>> &arrivals);

} // namespace dtc::lower
