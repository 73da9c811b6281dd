// Where a message of one rank waits for the rank that it is for.
//
// The sender says where its buffers are and waits; the receiver copies them from
// there. Nothing is stored in between.
#pragma once

#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <condition_variable>
#include <mutex>

namespace dtc::rt {

/// Of a channel from one rank to another.
class ThreadMailbox {
public:
  ThreadMailbox(ThreadWorld::Impl &world, int from, int to) : world(world), from(from), to(to) {}

  Status send(std::span<const SendBlock> blocks, const char *purpose);
  Status receive(std::span<const ReceiveBlock> blocks, const char *purpose);
  void wake();
  /// The other end, where this rank waits for it here.
  std::optional<int> waitedForBy(int rank);

private:
  /// A message's way: nothing here; sent, not yet found; being copied; copied or refused.
  enum class State { Empty, Sent, InCopy, Taken };

  /// Waits until the state is as said; an abort or the end of the time is an error.
  Status await(std::unique_lock<std::mutex> &lock, State wanted, int rank, const char *what,
               const char *purpose);
  Status differ(std::span<const ReceiveBlock> blocks, const char *purpose) const;

  ThreadWorld::Impl &world;
  int from, to;
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::Empty;
  bool senderWaits = false, receiverWaits = false;
  std::vector<SendBlock> sent;
  std::string sentPurpose;
  Status outcome = Status::ok(); ///< of the message that was taken
};

} // namespace dtc::rt
