// The other processes of a job, as one process sees them.
//
// A thread of its own answers callers and reads the control connections, so that a rank that
// computes or waits still learns of an abort. Everything that touches these connections runs on
// that thread; what others read is behind the mutex.
#pragma once

#include "dtc-rt/Processes/ProcessCommunicator.h"

#include "../EndedDevices.h"
#include "../HeldUp.h"
#include "../StallFinder.h"
#include "Handshake.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace dtc::rt {

/// Waiting that ends when the run is aborted.
struct Waiter {
  Waiter(asio::io_context &io, bool holdsUp) : io(io), holdsUp(holdsUp) {}
  asio::io_context &io;
  const bool holdsUp;        ///< the rank, while it waits
  std::atomic<int> peer{-1}; ///< a rank that is waited for; -1: none
};

class ProcessWorld::Impl {
public:
  using Clock = std::chrono::steady_clock;
  using Socket = asio::ip::tcp::socket;
  using SharedSocket = std::shared_ptr<Socket>;

  Impl(const Launch &launch, std::chrono::milliseconds timeLimit);
  ~Impl();

  /// Meets the other ranks. `signal` gives one that asks for the end, or 0.
  Status connect(const std::function<int()> &signal);
  int rank() const { return launch.rank; }
  int worldSize() const { return launch.worldSize; }
  std::chrono::milliseconds limit() const { return timeLimit.load(); }
  void setPulse(const StepPulse &said);

  void abort(const Status &reason);
  bool isAborted() const { return aborted.load(std::memory_order_acquire); }
  Status reason() const;
  /// The error that a call gets after an abort.
  Status check() const;
  Status close(const Status &status);

  /// A new connection of both ranks' ends of a stream; the rank that `calls` is the same on both.
  Result<Socket> open(asio::io_context &io, int peer, const std::string &stream, bool calls);
  /// What to say where the connection to a peer has ended. Either it is why the run was aborted,
  /// which is often told a moment later, or that the peer is lost.
  Status lost(int peer, const std::string &why);
  /// Of what a rank has waited for too long.
  struct Late {
    std::optional<int> missing; ///< a rank, where it is known
    bool isDeviceDone = false;  ///< whether its own device has done what it had to
  };
  /// Ends the run because a rank has waited too long, and names the rank to blame.
  Status timedOut(const Status &status, const Late &late);
  /// Likewise, as Communicator::deviceTookTooLong.
  Status deviceTimedOut(const Status &status, const std::function<bool()> &isDone);
  /// Data has come or gone, which takes hardly any time of a processor.
  void noteMoved() { hasMoved.store(true, std::memory_order_relaxed); }
  void attach(Waiter &waiter);
  void detach(Waiter &waiter);

private:
  enum class FrameKind : uint32_t { Table, Abort, Done, Alive, TimedOut, DeviceEnded, Stalled };
  struct FrameHead {
    FrameKind kind;
    uint32_t bytes;
  };
  /// A rank that this one has a control connection to.
  struct Control {
    SharedSocket socket;
    std::deque<std::string> outbox;
    bool isDone = false; ///< has said so
    int silentBeats = 0; ///< since it was heard
    bool isNear = false; ///< on this machine
    int waitsFor = -1;   ///< as it said last, likewise below
    RankBeat steps;
    bool usesUnseenNetwork = false;
  };
  using StreamKey = std::pair<int, std::array<uint8_t, 32>>;

  // On the thread of `io`, by file: Rendezvous.cpp.
  Status listenAsLeader();
  asio::awaitable<void> findLeader();
  asio::awaitable<bool> tryLeader(asio::ip::tcp::endpoint endpoint);
  void accept();
  asio::awaitable<void> greet(SharedSocket socket);
  void admit(SharedSocket socket, const Claim &claim);
  void sendTable();
  void readTable(const std::string &text);
  std::string missingRanks() const;
  bool awaitStart(const std::function<int()> &signal);

  // Control.cpp
  asio::awaitable<void> follow(int peer);
  void handle(int peer, FrameKind kind, const std::string &text);
  void ended(int peer);
  void post(int peer, FrameKind kind, const std::string &text);
  void enqueue(int peer, FrameKind kind, const std::string &text); ///< the same under the mutex
  void write(int peer);
  /// Keeps the first reason, wakes all who wait, and tells the other ranks.
  void end(const Status &reason, const std::string &told);
  void waitUntilSent();
  bool waitFor(std::chrono::milliseconds time, const std::function<bool()> &condition);

  // Liveness.cpp
  asio::awaitable<void> beat();
  void tellTimedOut(const Status &status, const Late &late);
  void noteLate(int rank, const Late &late);
  asio::awaitable<void> blame(Late late, std::string text);
  bool doDevicesHang() const;
  asio::awaitable<void> awaitDevices(std::chrono::milliseconds stall);
  std::string whoIsToBlame(std::optional<int> missing) const;
  void hearAlive(int peer, const std::string &text);
  void hearTimedOut(int peer, const std::string &text);
  void hearDeviceEnded(int rank);
  /// Of rank 0, after each beat, as StallFinder::find.
  std::optional<std::chrono::seconds> findStall();
  void hearStalled(const std::string &text);
  /// Whoever has waited for so long gives up. Where this rank comes to another step after all, the
  /// whole limit holds again.
  void shortenLimit(std::chrono::milliseconds limit);
  int waitsFor() const;

  Claim claimOf(bool isControl, const std::string &stream) const;

  Launch launch;
  const std::chrono::milliseconds wholeLimit;
  std::atomic<std::chrono::milliseconds> timeLimit; ///< shorter while steps hang

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> aborted{false};
  std::atomic<bool> hasMoved{false}; ///< since the last beat
  Status why = Status::ok();
  bool isReady = false; ///< all ranks are there
  bool sawStranger = false;
  size_t unsent = 0;                                ///< frames
  std::map<int, asio::ip::tcp::endpoint> endpoints; ///< where ranks listen
  std::map<int, Control> controls;
  std::map<StreamKey, int> arrived; ///< descriptors of connections that nobody has asked for yet
  std::set<Waiter *> waiters;
  RankBeat steps;            ///< of this rank
  EndedDevices devices;      ///< of rank 0, likewise below
  bool isDeviceLate = false; ///< a rank waits for no other, but for its device
  StallFinder stallFinder;   ///< on the thread of `io`, as the next
  HeldUp heldUp;

  asio::io_context io;
  asio::ip::tcp::acceptor acceptor;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
};

} // namespace dtc::rt
