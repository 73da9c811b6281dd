// From the calls of a schedule to those of a program's functions.
//
// A schedule counts in passes. A program may have one function for several of them, as the last
// stage gets from activations to gradients in one go. It also has functions that run once a step.
// One rank, 1F1B, 2 microbatches, and the functions
//
//   prologue        once a step
//   loss_and_grads  forward, input gradient, weight gradient
//   update          once a step
//
//   schedule   F0 B0 F1 B1
//   program    prologue, loss_and_grads 0, loss_and_grads 1, update
//
// The backward pass is absorbed by the function of the forward pass that it follows
// directly. Where it doesn't, or needs a message, the program can't run that schedule.
#pragma once

#include "dtc/Schedule/Messages.h"

namespace dtc::schedule {

/// What one call of a function carries out of a chunk's passes.
struct StageFunction {
  std::string name;
  int32_t chunk = 0;
  bool forward = false, inputGrad = false, weightGrad = false; ///< none: it runs once a step
  bool isOnce() const { return !forward && !inputGrad && !weightGrad; }
};

/// A call of a function, or an end of a message.
struct FunctionStep {
  Step::Action action = Step::Action::Call;
  int32_t function = -1; ///< of a call
  int32_t message = -1;  ///< in Communication::messages, of the others
  int32_t microbatch = 0, slot = 0, inbox = 0, outbox = 0; ///< 0 where there is none
  bool operator==(const FunctionStep &) const = default;
};

struct FunctionSteps {
  std::vector<FunctionStep> steps;
  std::string error; ///< why the functions can't run the schedule, in one line
};

/// The steps of a rank. Functions that run once a step are called before all passes if
/// they are listed before the functions of passes, otherwise after them. Where no
/// function has a backward pass, the forward pass is all.
FunctionSteps functionSteps(const Schedule &schedule, const Communication &communication,
                            int64_t rank, const std::vector<StageFunction> &functions);

} // namespace dtc::schedule
