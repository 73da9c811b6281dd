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
/// Where it isn't known for whom a rank waits.
constexpr int kNoRank = -1;
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
      abort({ErrorCategory::RankLost, "rank " + std::to_string(silent) +
                                          " was lost: its process has not answered for " +
                                          std::to_string(kMostSilentBeats) + " s"});
    for (int peer : peers)
      post(peer, FrameKind::Alive, bytesOf(own));
  }
}

void ProcessWorld::Impl::hearAlive(int peer, const std::string &text) {
  std::lock_guard lock(mutex);
  controls[peer].waitsFor = numberOf(text);
}

Status ProcessWorld::Impl::timedOut(const Status &status, std::optional<int> missing) {
  if (launch.rank == 0)
    asio::co_spawn(io, blame(missing, status.message()), asio::detached);
  else
    post(0, FrameKind::TimedOut, bytesOf(missing.value_or(kNoRank)) + status.message());
  waitFor(kBlameLimit, [&] { return isAborted(); });
  abort(status);
  return check();
}

void ProcessWorld::Impl::hearTimedOut(const std::string &text) {
  int missing = numberOf(text);
  if (launch.rank != 0 || text.size() < sizeof(int32_t) || missing >= launch.worldSize)
    return;
  std::optional<int> known;
  if (missing >= 0)
    known = missing;
  asio::co_spawn(io, blame(known, text.substr(sizeof(int32_t))), asio::detached);
}

asio::awaitable<void> ProcessWorld::Impl::blame(std::optional<int> missing, std::string text) {
  asio::steady_timer timer(io, kBlameTime);
  co_await timer.async_wait(asio::use_awaitable);
  abort({ErrorCategory::RankLost, text + whoIsToBlame(missing)});
}

/// What to add to the words of a rank that has waited too long.
std::string ProcessWorld::Impl::whoIsToBlame(std::optional<int> missing) const {
  std::lock_guard lock(mutex);
  auto isSilent = [&](int rank) {
    auto control = controls.find(rank);
    return control != controls.end() && control->second.silentBeats >= kSilentBeats;
  };
  std::string text;
  int rank = missing.value_or(kNoRank);
  if (!missing) {
    for (auto &[peer, control] : controls)
      if (rank < 0 && isSilent(peer))
        rank = peer;
    text = rank < 0 ? "" : ", or for rank: " + std::to_string(rank);
  }
  std::set<int> seen;
  while (rank >= 0 && seen.insert(rank).second && !isSilent(rank)) {
    auto control = controls.find(rank);
    int next = control == controls.end() ? waitsFor() : control->second.waitsFor;
    if (next < 0)
      break;
    rank = next;
  }
  if (missing && rank != *missing)
    text = ", which waits for rank: " + std::to_string(rank);
  if (isSilent(rank))
    text += ", whose process does not answer";
  return text;
}

} // namespace dtc::rt
