// A symbolic replay of the programs of all roles together.
//
// The replay computes nothing. It walks through the calls of two steps, and of an evaluation
// between them. It knows for every byte of every arena which value of which call lies there. A
// program says what each instruction should read (values, Function.values) and where it reads
// (addresses). The replay follows the addresses, and the first instruction that finds something
// else than its value is reported.
//
// Example: two microbatches, forward (F) keeps an activation for backward (B) in
// one of two slots. The scheduler gave B of microbatch 1 the wrong slot.
//
//   call          writes         slot 0 holds     slot 1 holds
//   F m0 slot 0   slot 0         act of m0        nothing
//   F m1 slot 1   slot 1         act of m0        act of m1
//   B m0 slot 0                  act of m0        act of m1
//   B m1 slot 0   -> "step 1: call 3 @backward (microbatch 1, slot 0): instruction 0 'dw':
//                     reads 'act' of microbatch 1, where 'act' of microbatch 0 lies"
//
// What should be read is known by name, not by address. A binding (parameter, accumulator, kept
// activation, inbox ...) has one current content, or one for each microbatch. Arguments expect the
// current contents, results replace them. Gradients, activations and messages of one step are
// unknown in the next. What an evaluation leaves out makes nothing, so that nothing may read it.
//
// Order. Calls are issued one after another, but queues carry instructions out
// side by side. Vector clocks over queues and tokens say which instructions
// happen before which. A read must happen after the write it depends on, and a
// write after all earlier accesses of its range. So whatever order the queues
// choose, the contents are those of the order of issue.
//
// Messages. What is received is a content of its own: the n-th message of its
// channel. The n-th message sent there must be the binding of the same name, of
// the same step and microbatch. Then all queues are carried out with messages that
// wait for their receiver (rendezvous): none may wait for ever.
//
// Collectives. All ranks of a group must make the same calls in the same order.
//
// Ranks that can't be told apart are replayed once. Their role is one, and their peers and groups
// lead to ranks that can't be told apart either (lib/Replay/RankClasses.h).
//
// Stored parts (ZeRO) are gathered and scattered among the ranks that their placements name, and
// all that is stored of a parameter lies alike (lib/Replay/StoredParts.h).
//
// Three things aren't known here. They are what a kernel computes and which part of a value a
// product reads. And all ranks of a role together may use the wrong group of the right size.
#pragma once

#include "dtc-rt/Program_generated.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::replay {

/// A program and the world ranks that execute it, by their position on its mesh.
struct Role {
  const rt::fbs::ProgramT *program = nullptr;
  std::vector<int32_t> ranks;
};

/// Empty, or the first violation in one line.
std::string replayPrograms(const std::vector<Role> &roles);

} // namespace dtc::replay
