// Which rank is to blame where ranks wait.
//
// Every second each process tells rank 0, and rank 0 each process, that it lives and for whom it
// waits. A process that is stopped or cut off falls silent. One that hangs in its own code does
// not, but those that wait for it lead to it:
//
//   rank 0 waits for rank 1, rank 1 waits for rank 2, rank 2 waits for nobody   -> rank 2
#include "Peers.h"

#include <cstring>

namespace dtc::rt {
namespace {

constexpr auto kBeat = std::chrono::seconds(1);
/// Beats are counted, not timed: where all processes are suspended and go on, none is missing.
constexpr int kMostSilentBeats = 6;
/// A rank that was silent as long as this doesn't answer.
constexpr int kSilentBeats = 2;
/// After which silence shows.
constexpr auto kBlameTime = std::chrono::milliseconds(2500);
constexpr auto kBlameLimit = std::chrono::milliseconds(4000);

std::string bytesOf(int32_t number) {
  return {reinterpret_cast<const char *>(&number), sizeof(number)};
}

int32_t numberOf(const std::string &bytes) {
  int32_t number = -1;
  if (bytes.size() >= sizeof(number))
    std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

} // namespace

void ProcessWorld::Impl::attach(Waiter &waiter) {
  std::lock_guard lock(mutex);
  waiters.insert(&waiter);
}

void ProcessWorld::Impl::detach(Waiter &waiter) {
  std::lock_guard lock(mutex);
  waiters.erase(&waiter);
}

/// Any of the ranks that this one waits for, or -1; under the mutex.
int ProcessWorld::Impl::waitsFor() const {
  for (const Waiter *waiter : waiters)
    if (int peer = waiter->peer.load(); peer >= 0)
      return peer;
  return -1;
}

asio::awaitable<void> ProcessWorld::Impl::beat() {
  asio::steady_timer timer(io);
  while (!isAborted()) {
    timer.expires_after(kBeat);
    co_await timer.async_wait(asio::use_awaitable);
    std::vector<int> peers;
    int own = -1, silent = -1;
    {
      std::lock_guard lock(mutex);
      own = waitsFor();
      for (auto &[peer, control] : controls) {
        peers.push_back(peer);
        if (++control.silentBeats > kMostSilentBeats)
          silent = peer;
      }
    }
    if (silent >= 0)
      abort({ExitCode::RankLost, "rank " + std::to_string(silent) +
                                     " was lost: its process has not answered for " +
                                     std::to_string(kMostSilentBeats) + " s"});
    for (int peer : peers)
      post(peer, Kind::Alive, bytesOf(own));
  }
}

void ProcessWorld::Impl::hearAlive(int peer, const std::string &text) {
  std::lock_guard lock(mutex);
  controls[peer].waitsFor = numberOf(text);
}

Status ProcessWorld::Impl::timedOut(const Status &status, int missing) {
  if (launch.rank == 0)
    asio::co_spawn(io, blame(missing, status.message()), asio::detached);
  else
    post(0, Kind::TimedOut, bytesOf(missing) + status.message());
  waitFor(kBlameLimit, [&] { return isAborted(); });
  abort(status);
  return check();
}

void ProcessWorld::Impl::hearTimedOut(const std::string &text) {
  int missing = numberOf(text);
  if (launch.rank == 0 && missing >= 0 && missing < launch.worldSize)
    asio::co_spawn(io, blame(missing, text.substr(sizeof(int32_t))), asio::detached);
}

asio::awaitable<void> ProcessWorld::Impl::blame(int missing, std::string text) {
  asio::steady_timer timer(io, kBlameTime);
  co_await timer.async_wait(asio::use_awaitable);
  std::set<int> seen;
  int rank = missing;
  bool isSilent = false;
  {
    std::lock_guard lock(mutex);
    while (seen.insert(rank).second) {
      auto control = controls.find(rank);
      isSilent = control != controls.end() && control->second.silentBeats >= kSilentBeats;
      int next = control == controls.end() ? waitsFor() : control->second.waitsFor;
      if (isSilent || next < 0)
        break;
      rank = next;
    }
  }
  if (rank != missing)
    text += ", which waits for rank: " + std::to_string(rank);
  if (isSilent)
    text += ", whose process does not answer";
  abort({ExitCode::RankLost, text});
}

} // namespace dtc::rt
