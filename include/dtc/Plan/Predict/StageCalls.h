// Which calls of a pipeline's stage the steps of an execution are in.
//
// A stage has functions for its forward and its backward pass, or three where gradients of
// weights come later. What one makes and another reads lies in a slot from call to call; the
// rest of what a function makes are its temporaries. Of a layer y = x w, where x is kept,
//
//   forward       y = x w            y is a temporary, or sent
//   input grad    dx = dy w'         keeps dy, for which the weight gradient waits
//   weight grad   dw = x' dy         dw is a temporary until it is added up
#pragma once

#include "dtc/Plan/Predict/RankExecution.h"

#include <optional>
#include <vector>

namespace dtc::plan {

enum class StageCall : uint8_t { Forward, Backward, InputGrad, WeightGrad };
constexpr int kStageCalls = 4;

class StageCalls {
public:
  StageCalls(const RankExecution &execution, const Problem &problem);

  /// Whether a step is in a call; the backward pass is that of both kinds of gradients.
  bool has(StageCall call, size_t step) const {
    return call == StageCall::Backward ? steps[step] != StageCall::Forward : steps[step] == call;
  }
  /// Whether a call of weight gradients reads a buffer that another call makes.
  bool isReadLate(size_t buffer) const {
    return made[buffer] && made[buffer] != StageCall::WeightGrad && readLate[buffer];
  }
  /// Whether a slot has what a call makes or reads in a buffer.
  bool isKeptBy(size_t buffer, StageCall call) const;
  /// Whether a step adds up gradients of a weight, which don't cross cuts (Crossings.h), or brings
  /// them to the form of the sum.
  bool readsTerms(size_t step) const { return steps[step] == StageCall::WeightGrad && sums[step]; }
  /// Products and collectives write nothing but their results. Rows of experts are added up.
  bool writesResultsAlone(size_t step) const;
  /// Whether what it sums up in f32 is rounded by what reads it. That is the kernel of a sum.
  bool isRoundedLate(size_t step) const;
  /// Whether it adds to what earlier microbatches left.
  bool accumulates(size_t step) const;

private:
  StageCall callOf(const ExecutionStep &step) const;
  void delayUnneeded();

  const RankExecution &execution;
  const Problem &problem;
  std::vector<StageCall> steps;               ///< where the backward pass comes in two calls
  std::vector<std::optional<StageCall>> made; ///< by buffer: what writes it first
  std::vector<bool> readBackward, readLate;   ///< by buffer
  std::vector<bool> sums;                     ///< by step: of an op that sums up gradients
};

/// What a call's temporaries take at one of its steps.
struct Temporary {
  size_t step = 0;
  int unit = 0;
  int64_t live = 0;
  /// What of it lies in messages if a stage begins with the step's unit, ends with it, or both. Of
  /// what is computed again, a stage has nothing that units before it made.
  int64_t below = 0, above = 0, outside = 0;
  /// What of it is added to gradients as it is made, and lies there. `ofScattered`: the same of
  /// gradients that ZeRO-2 scatters, which lie there only where it doesn't.
  int64_t atHome = 0, ofScattered = 0;
  /// What is still live after the step, and what of it lies in messages if a stage has the step's
  /// unit alone.
  int64_t after = 0, afterOutside = 0;
};

/// A term of a gradient that ZeRO-2 scatters, and whose sum is in a unit before its own. A stage
/// without the unit that makes it has nothing of it, though it is live until it is added up.
struct TermOfOthers {
  int sum = 0, maker = 0; ///< units
  int64_t bytes = 0;
};

struct Temporaries {
  std::vector<Temporary> steps; ///< of the call, in order
  std::vector<TermOfOthers> terms;
};

/// `units`: by step of the execution. `scattered`: buffers of gradients that ZeRO-2 scatters.
Temporaries temporariesOf(const RankExecution &execution, const StageCalls &calls, StageCall call,
                          const std::vector<int> &units, const std::vector<bool> &scattered);

} // namespace dtc::plan
