// Queues of a rank on processors.
#pragma once

#include "dtc-rt/CPU/ThreadTeam.h"
#include "dtc-rt/Device.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace dtc::rt {

/// The signals of an event are numbered as they are issued.
class CpuEvent : public Event {
public:
  uint64_t issued = 0;    ///< the last one; of the rank's thread
  uint64_t completed = 0; ///< guarded by RankProgress
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

private:
  std::unique_ptr<Communicator> end;
};

class CpuOperation : public Operation {
public:
  explicit CpuOperation(CpuQueue &queue) : queue(queue) {}
  Status issue(std::span<const Address> addresses) final {
    return queue.submit(*this, addresses);
  }
  /// On the queue's thread.
  virtual Status run(const Address *addresses) = 0;

protected:
  CpuQueue &queue;
};

/// The only queue of a rank: carries out each operation as it is issued.
class InlineQueue : public CpuQueue {
public:
  InlineQueue(RankProgress &progress, ThreadTeam &team, std::unique_ptr<Communicator> end)
      : CpuQueue(std::move(end)), progress(progress), threads(team) {}

  Status submit(CpuOperation &operation, std::span<const Address> addresses) override {
    return operation.run(addresses.data());
  }
  ThreadTeam &team() override { return threads; }
  void signal(Event &) override {}
  void wait(Event &) override {}
  Status synchronize() override { return progress.status(); }

private:
  RankProgress &progress;
  ThreadTeam &threads;
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
  void wait(Event &event) override;
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
