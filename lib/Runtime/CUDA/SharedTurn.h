// Ranks that share one GPU issue their work in one order, on one stream.
//
// A wait on the GPU may hold up what it waits for. Streams and branches of graphs are mapped to
// hardware queues as the driver likes. So such ranks never wait there. Each of their queues has a
// thread that issues its operations in turn, and waits on the host until others have issued:
//
//   queue of rank 0              queue of rank 1              the one stream
//   copy into slot 0             wait until slot 0 is full    copy into slot 0
//   slot 0 is full for 1         add slot 0                   add slot 0
//
// What was issued before is done before, as there is one stream. So no mapping can block.
#pragma once

#include "Libraries.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace dtc::rt::cuda {

/// Whether DTC_SHARE_GPU asks for it.
bool sharesGpu();

/// Held by whoever issues work or looks at what was issued. It is nothing where GPUs aren't shared.
class SharedTurn {
public:
  SharedTurn();
  ~SharedTurn();
  SharedTurn(const SharedTurn &) = delete;
  SharedTurn &operator=(const SharedTurn &) = delete;

  /// Lets others have the turn until `condition` holds. Only for who has taken it once.
  static void waitUntil(const std::function<bool()> &condition);
  /// What others wait for may hold now.
  static void notify();

private:
  const bool isTaken;
};

/// Issues what a queue is given, one after another.
class IssuingThread {
public:
  explicit IssuingThread(const std::function<void()> &begin);
  /// Ends once all was issued.
  ~IssuingThread();
  void push(std::function<void()> work);

private:
  void run(const std::function<void()> &begin);

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> pending;
  bool isClosing = false;
  std::thread thread;
};

/// The stream of a GPU's ranks; it lasts as long as one of them has it.
using StreamOwner = std::shared_ptr<CUstream_st>;
Result<StreamOwner> sharedStream(const Driver &driver);

} // namespace dtc::rt::cuda
