// Proves by example that the ranks of a plan compute what one rank computes.
//
// A training step is carried out twice on the same drawn parameters, optimizer states and samples.
// The global functions do it on one rank, the partitioned ones on all ranks of the mesh together.
// What one function returns the next takes, by role and name, on each rank as the rank has it:
//
//   one rank     prologue -> count; loss_and_grads, each microbatch -> loss, gradients; update
//   N ranks      the same on shards; gradients may be pending sums until the update
//
// A pipeline's ranks have functions of their own. These are called as their messages arrive, so
// that the proof holds for every schedule; the order of calls is what the replay is about.
//
// Loss, gradients, the gradient's norm, and parameters and states after the update are put together
// from their shards and compared. Both sides calculate in fp64 without rounding to the program's
// types. So what differs is the program: a collective that is missing, a wrong shard, a sum that is
// counted twice. Some values hide that, and are drawn or made otherwise:
//
//   gradients of zeros              the step is drawn again, up to four times in all, until each
//                                   was once another
//   counts compared with a limit    some must be below it and some not, along each dimension and in
//                                   two draws, as where experts are full
//   tokens that choose alike        others must choose other experts, and ranks with experts must
//                                   get rows of other tokens
//   gradients too small to clip     the update is made again with larger ones
//   finite gradients                the update is made again with infinite ones, which are counted
//   calls that train                where they can evaluate, the last draw does: loss and buffers
//                                   are compared
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <optional>
#include <string>

namespace dtc::interpreter {

struct StepOptions {
  /// Calls of loss_and_grads in a step. All samples are counted, but no more than two
  /// calls are made: those after them do what the second does.
  int64_t microbatches = 1;
  /// Targets that don't count; some of those drawn are set to it.
  std::optional<int64_t> ignoreIndex;
  uint64_t seed = 1; ///< of what is drawn
  bool evaluates = false; ///< whether the calls evaluate; then nothing is updated
};

struct StepComparison {
  int64_t ranks = 0, tensors = 0; ///< how many computed and were compared
  /// The largest difference of an element, relative to the largest element of its tensor, and
  /// where. Where that is below 1e-4 of a tensor of the step, it is relative to that tensor.
  double worst = 0;
  std::string worstTensor; ///< "gradient of h.0.attn.weight"
  /// Of those that differ, the one that is computed first; empty: none does.
  std::string firstWrong;
  /// Why nothing is proven: on drawn values the step isn't defined, or is zero. Empty: it is.
  std::string unproven;
  bool isEqual() const { return worst <= kTolerance; }

  /// Sums in another order differ by about 1e-15.
  static constexpr double kTolerance = 1e-8;
};

/// How long the comparison takes at most, roughly, with the mesh of `global` before partitioning.
double estimatedSeconds(mlir::ModuleOp global, const StepOptions &options);

/// `global` has functions of whole tensors, `local` the same ones after
/// partitioning, in a module for each rank of a pipeline. Fails, with a diagnostic, where a
/// function can't be interpreted.
mlir::FailureOr<StepComparison> compareStep(mlir::ModuleOp global, mlir::ModuleOp local,
                                            const StepOptions &options = {});

} // namespace dtc::interpreter
