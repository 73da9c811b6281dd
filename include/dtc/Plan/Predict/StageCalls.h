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

namespace dtc::plan {

enum class StageCall : uint8_t { Forward, Backward, InputGrad, WeightGrad };
constexpr int kStageCalls = 4;

class StageCalls {
public:
  explicit StageCalls(const RankExecution &execution);

  /// Whether a step is in a call; the backward pass is that of both kinds of gradients.
  bool has(StageCall call, size_t step) const {
    return call == StageCall::Backward ? steps[step] != StageCall::Forward : steps[step] == call;
  }
  /// Whether a call of input gradients makes a buffer that one of weight gradients reads.
  bool waits(size_t buffer) const {
    return made[buffer] == StageCall::InputGrad && readLate[buffer];
  }
  /// Whether a slot has what a call makes or reads in a buffer.
  bool isKeptBy(size_t buffer, StageCall call) const;

private:
  StageCall callOf(const ExecutionStep &step) const;

  std::vector<StageCall> steps;               ///< where the backward pass comes in two calls
  std::vector<std::optional<StageCall>> made; ///< by buffer: what writes it first
  std::vector<bool> readBackward, readLate;   ///< by buffer
};

/// The bytes of a call's temporaries at each step; -1 at steps of other calls.
std::vector<int64_t> temporaryBytes(const RankExecution &execution, StageCall call);

} // namespace dtc::plan
