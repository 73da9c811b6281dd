// Queues of a rank on processors.
#pragma once

#include "dtc-rt/CPU/ThreadTeam.h"
#include "dtc-rt/Device.h"
#include "dtc-rt/Profile.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace dtc::rt {

class DelayedQueue;

/// The signals of an event are numbered as they are issued.
class CpuEvent : public Event {
public:
  uint64_t issued = 0;             ///< the last one; of the rank's thread
  uint64_t completed = 0;          ///< guarded by RankProgress
  DelayedQueue *delayed = nullptr; ///< that may still have signals of it
  uint64_t delayedSignals = 0;
};

/// What the queues of a rank tell each other: events, and the first failure.
class RankProgress {
public:
  explicit RankProgress(Communicator &communicator) : communicator(communicator) {}

  void complete(CpuEvent &event, uint64_t number);
  /// Returns when the signal has happened, or something has failed.
  void await(const CpuEvent &event, uint64_t number);
  /// Ends the run; the first failure of a rank is kept.
  void fail(const Status &reason);
  bool hasFailed() const { return failed.load(std::memory_order_acquire); }
  /// The failure, or that of another rank.
  Status status() const;

private:
  Communicator &communicator;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> failed{false};
  Status failure = Status::ok();
};

class CpuOperation;

class CpuQueue : public Queue {
public:
  explicit CpuQueue(std::unique_ptr<Communicator> end) : end(std::move(end)) {}

  /// Runs the operation now or later; addresses are copied if later.
  virtual Status submit(CpuOperation &operation, std::span<const Address> addresses) = 0;
  /// Of the thread that carries the queue's work out; use it there.
  virtual ThreadTeam &team() = 0;
  Communicator &communicator() { return *end; }
  /// Null: nothing is noted.
  QueueProfile *profile() const { return noted; }
  void setProfile(QueueProfile &profile) { noted = &profile; }

  void wait(Event &event) final;
  /// Waits for the signal of this number.
  virtual void waitFor(CpuEvent &event, uint64_t number) = 0;

private:
  std::unique_ptr<Communicator> end;
  QueueProfile *noted = nullptr;
};

class CpuOperation : public Operation {
public:
  explicit CpuOperation(CpuQueue &queue) : queue(queue) {}
  Status issue(std::span<const Address> addresses) final {
    return queue.submit(*this, addresses);
  }
  /// On the queue's thread; noted where the queue has a profile.
  Status carryOut(const Address *addresses) {
    QueueProfile *profile = queue.profile();
    if (!profile)
      return run(addresses);
    int64_t begin = RankProfile::now();
    Status status = run(addresses);
    profile->add(profiled, begin, RankProfile::now());
    return status;
  }
  /// Its number in the rank's profile.
  void setProfiled(uint32_t number) { profiled = number; }

private:
  virtual Status run(const Address *addresses) = 0;
  uint32_t profiled = 0;

protected:
  CpuQueue &queue;
};

/// Of a rank that computes on its own thread: carries out each operation as it is issued.
class InlineQueue : public CpuQueue {
public:
  InlineQueue(RankProgress &progress, ThreadTeam &team, std::unique_ptr<Communicator> end)
      : CpuQueue(std::move(end)), progress(progress), threads(team) {}

  Status submit(CpuOperation &operation, std::span<const Address> addresses) override {
    return operation.carryOut(addresses.data());
  }
  ThreadTeam &team() override { return threads; }
  void signal(Event &) override {}
  void waitFor(CpuEvent &, uint64_t) override {}
  Status synchronize() override { return progress.status(); }

private:
  RankProgress &progress;
  ThreadTeam &threads;
};

/// A queue whose work another one carries out, as it is issued.
class JoinedQueue : public CpuQueue {
public:
  JoinedQueue(CpuQueue &queue, std::unique_ptr<Communicator> end)
      : CpuQueue(std::move(end)), inner(queue) {}

  Status submit(CpuOperation &operation, std::span<const Address> addresses) override {
    return inner.submit(operation, addresses);
  }
  ThreadTeam &team() override { return inner.team(); }
  void signal(Event &event) override { inner.signal(event); }
  void waitFor(CpuEvent &event, uint64_t number) override { inner.waitFor(event, number); }
  Status synchronize() override { return inner.synchronize(); }

protected:
  CpuQueue &inner;
};

/// A queue whose work another one carries out when that is told to wait for it.
class DelayedQueue : public JoinedQueue {
public:
  DelayedQueue(RankProgress &progress, CpuQueue &queue, std::unique_ptr<Communicator> end)
      : JoinedQueue(queue, std::move(end)), progress(progress) {}

  Status submit(CpuOperation &operation, std::span<const Address> addresses) override;
  void signal(Event &event) override;
  void waitFor(CpuEvent &event, uint64_t number) override;
  Status synchronize() override;
  /// Issues what comes before the last signal of an event.
  void bring(const CpuEvent &event);

private:
  struct Entry {
    CpuOperation *operation = nullptr; ///< null: a signal or a wait
    std::vector<Address> addresses;
    CpuEvent *event = nullptr;
    std::optional<uint64_t> awaited = std::nullopt; ///< none: a signal
  };
  void issue(const Entry &entry);

  RankProgress &progress;
  std::deque<Entry> entries;
};

/// One of several queues of a rank, with a thread of its own.
class ThreadQueue : public CpuQueue {
public:
  /// `threads`: of a kernel or library call that is issued to it.
  ThreadQueue(RankProgress &progress, int threads, std::unique_ptr<Communicator> end);
  ~ThreadQueue() override;

  Status submit(CpuOperation &operation, std::span<const Address> addresses) override;
  ThreadTeam &team() override { return *threads; }
  void signal(Event &event) override;
  void waitFor(CpuEvent &event, uint64_t number) override;
  Status synchronize() override;

private:
  struct Entry {
    CpuOperation *operation = nullptr; ///< null: a signal or a wait
    std::vector<Address> addresses;
    CpuEvent *event = nullptr;
    uint64_t number = 0;
    bool signals = false;
  };
  void push(Entry entry);
  void work(int teamSize);
  void carryOut(const Entry &entry);

  RankProgress &progress;
  std::optional<ThreadTeam> threads;
  std::mutex mutex;
  std::condition_variable added, idle;
  std::vector<Entry> entries;
  bool isBusy = false, isClosing = false;
  std::thread thread;
};

} // namespace dtc::rt
