// What the ranks do next, where a caller decides it step by step (dtc-rt/Trainer.h).
//
//   caller   ask(Step) ............... true | ask(SaveWeights) ... true | ask(End)
//   rank 0   next() = Step | work | next() = SaveWeights | work | next() = End
//   rank 1   next() = Step | work | next() = SaveWeights | work | next() = End
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace dtc::rt {

class RankRequests {
public:
  enum class Request : uint8_t { Step, Evaluate, SaveWeights, End };

  /// The ranks begin by getting ready.
  explicit RankRequests(int64_t ranks) : ranks(ranks), busy(ranks) {}

  /// Of a rank: it is done with the last request, and waits for the next one.
  Request next();
  /// Of a rank: it takes no more requests.
  void leave(bool hasFailed);

  /// Of the caller: has all ranks do it, and waits. False where one has failed.
  bool ask(Request wanted);
  /// Of the caller: waits until all are done with the last request.
  bool await();
  /// Of the caller: waits until no rank is at work. False where one hangs although another failed.
  bool awaitEnd(std::chrono::seconds grace);

private:
  std::mutex mutex;
  std::condition_variable changed;
  int64_t ranks, busy, gone = 0;
  int64_t asked = 0; ///< requests
  bool failed = false;
  Request last = Request::Step;
};

} // namespace dtc::rt
