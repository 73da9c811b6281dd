// Where the threads of a group of ranks meet.
#pragma once

#include "../EndedDevices.h"
#include "ThreadMailbox.h"
#include "ThreadPulses.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

namespace dtc::rt {

/// What one rank says of its call, so that the others can tell that theirs is the same.
struct CollectiveCall {
  const char *name;
  DType dtype;
  int variant; ///< reduction or root
  int dim, otherDim;
  std::span<const Transfer> buffers;
};

class ThreadGroup {
public:
  ThreadGroup(ThreadWorld::Impl &world, std::vector<int> ranks);

  /// Before the first meeting of a call. What is said stays readable after the
  /// rank has gone on because of an abort.
  void publish(int position, const CollectiveCall &call);
  /// The first position whose call differs from that of `position`, or -1.
  int findMismatch(int position) const;
  const Transfer &transfer(int position) const { return calls[position].buffers[0]; }
  const std::vector<Transfer> &transfers(int position) const { return calls[position].buffers; }
  /// True when any rank's source is its target: the same answer on all ranks.
  bool anyInPlace() const;

  /// Blocks until all ranks of the group are here.
  Status meet(int position, const char *what, const char *purpose);
  void wake();
  /// A rank that this one waits for here.
  std::optional<int> waitedForBy(int rank);

private:
  struct Published {
    const char *name = "";
    DType dtype = DType::F32;
    int variant = 0, dim = 0, otherDim = 0;
    std::vector<Transfer> buffers;
  };
  /// Those that aren't here.
  std::vector<int> missing() const;

  ThreadWorld::Impl &world;
  std::vector<int> ranks;
  std::vector<Published> calls;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> present;
  size_t arrived = 0;
  uint64_t generation = 0;
};

class ThreadWorld::Impl {
public:
  Impl(int worldSize, std::chrono::milliseconds timeLimit)
      : worldSize(worldSize), wholeLimit(timeLimit), timeLimit(timeLimit), devices(worldSize),
        pulses(worldSize, [this](std::chrono::seconds stall) { shortenLimit(stall); }) {}

  ~Impl() {
    if (judge.joinable())
      judge.join();
  }

  int size() const { return worldSize; }
  std::chrono::milliseconds limit() const { return timeLimit.load(); }
  void setPulse(int rank, const StepPulse &pulse);
  int groupOf(const std::string &queue, const std::vector<int> &ranks);
  ThreadGroup &groupAt(int id);
  ThreadMailbox &mailbox(int from, int to, uint32_t channel);
  void abort(const Status &reason);
  bool isAborted() const { return aborted.load(std::memory_order_acquire); }
  Status reason() const;
  /// The error that a call on another rank gets.
  Status check() const;
  /// Waits until `done`, which is looked at when it is notified. False where that takes longer than
  /// the limit, which may become shorter meanwhile.
  bool await(std::condition_variable &changed, std::unique_lock<std::mutex> &lock,
             const std::function<bool()> &done) const;
  /// Ends the run because a rank has waited too long for others, and names the one to blame. No
  /// group or mailbox is locked by the caller.
  Status timedOut(int rank, const char *what, const char *purpose, const std::vector<int> &missing);
  /// As Communicator::deviceTookTooLong.
  Status deviceTimedOut(int rank, const Status &reason, const std::function<bool()> &isDone);

private:
  bool haveDevicesEnded();
  /// Ends the run because devices hang, and names them where some have ended.
  void judgeDevices(const Status &reason, std::chrono::milliseconds stall);
  /// Of a rank that waits for others, as its own device doesn't: whether it is another device that
  /// hangs, which the run has then ended for.
  bool endedForDevice(int rank);
  /// Those that there are.
  struct Places {
    std::vector<ThreadGroup *> groups;
    std::vector<ThreadMailbox *> mailboxes;
  };
  Places places();
  /// Whoever has waited for so long gives up. Where a rank comes to another step after all, the
  /// whole limit holds again.
  void shortenLimit(std::chrono::milliseconds limit);
  std::optional<int> waitedForBy(int rank);

  int worldSize;
  const std::chrono::milliseconds wholeLimit;
  std::atomic<std::chrono::milliseconds> timeLimit; ///< shorter while steps hang
  mutable std::mutex mutex;
  std::map<std::pair<std::string, std::vector<int>>, int> ids;
  std::deque<ThreadGroup> groups;
  /// By sender, receiver and channel.
  std::map<std::tuple<int, int, uint32_t>, ThreadMailbox> mailboxes;
  std::atomic<bool> aborted{false};
  Status why = Status::ok();
  EndedDevices devices;
  std::atomic<bool> isDeviceLate{false}; ///< a rank waits for no other, but for its device
  std::thread judge;                     ///< of devices that hang
  ThreadPulses pulses;                   ///< ends first: it changes the limit
};

} // namespace dtc::rt
