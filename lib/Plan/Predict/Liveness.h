// What is in memory as the steps of an execution follow one another.
#pragma once

#include "dtc/Plan/Predict/RankExecution.h"

namespace dtc::plan {

class Liveness {
public:
  /// `elsewhere`: buffers that aren't counted, but may be written over once they are spent.
  explicit Liveness(const RankExecution &execution, std::vector<bool> elsewhere = {});

  void skip() { ++at; }
  /// The most bytes in use during the next step.
  int64_t advance();
  /// The bytes that the last step left.
  int64_t left() const { return now; }
  /// A buffer is to die with an earlier step than the last one that reads it; before `advance`.
  void endAt(int buffer, size_t step) { lastUse[buffer] = step; }

  /// A buffer that was counted, during the steps [begin, end).
  struct Life {
    int buffer = 0;
    size_t begin = 0, end = 0;
  };
  const std::vector<Life> &getLives() const { return lives; }
  /// Buffers with those that were written over them, in order.
  const std::vector<std::pair<int, int>> &getOverwritten() const { return over; }

private:
  static constexpr size_t kNever = ~size_t{0};
  bool isLive(int buffer) const { return madeAt[buffer] != kNever; }
  bool dies(int buffer) const {
    return (isLive(buffer) || elsewhere[buffer]) && lastUse[buffer] == at;
  }
  void release(int buffer, bool isWrittenOver = false);
  void write(const ExecutionStep &step, int written);
  OpPlaces placesOf(const ExecutionStep &step) const;

  const RankExecution &execution;
  std::vector<size_t> lastUse; ///< by buffer: the step
  std::vector<size_t> madeAt;  ///< by buffer: the step, of those that are counted now
  std::vector<bool> elsewhere; ///< by buffer
  using Waiting = std::pair<int, int>; ///< the last term of a stage, and one that waits for it
  std::vector<Waiting> waiting;        ///< ascending
  std::vector<Life> lives;
  std::vector<std::pair<int, int>> over;
  int64_t now = 0;
  size_t at = 0; ///< the next step
};

} // namespace dtc::plan
