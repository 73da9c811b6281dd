// Which rank is to blame where ranks wait.
//
// Every second each process tells rank 0, and rank 0 each process, that it lives and for whom it
// waits. A process that is stopped or cut off falls silent. One that hangs in its own code does
// not, but those that wait for it lead to it (WaitChain.h).
//
// They also tell the step in which they are, and whether their machine or network holds them up.
// Where all are in a step for too long (StallFinder.h), rank 0 has those that wait give up at once
// rather than at the time limit. Who waits for another rank's news may wait for one whose device
// only waits itself. So devices decide where any rank waits for its own:
//
//   ranks 0 and 2 wait for news of rank 1, ranks 1 and 3 for their devices; without its
//   communicators that of rank 1 ends, and that of rank 3 doesn't   -> rank 3
#include "../WaitChain.h"
#include "NetworkState.h"
#include "Peers.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {
namespace {

/// Beats are counted, not timed: where all processes are suspended and go on, none is missing.
constexpr int kMostSilentBeats = 6;
/// A rank that was silent as long as this doesn't answer.
constexpr int kSilentBeats = 2;
/// After which silence shows. It has shown where steps have hung for long.
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

/// What a process tells of itself in a beat.
struct Beat {
  int64_t step = 0, patience = 0; ///< of its pulse, in seconds
  int64_t computesHere = 0, isHeldUp = 0, isIdle = 0, usesUnseenNetwork = 0;
  int64_t waitsFor = kNoRank;
};

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
    if (int peer = waiter->peer.load(); peer >= 0 && waiter->holdsUp)
      return peer;
  return -1;
}

asio::awaitable<void> ProcessWorld::Impl::beat() {
  asio::steady_timer timer(io);
  while (!isAborted()) {
    timer.expires_after(kBeat);
    co_await timer.async_wait(asio::use_awaitable);
    std::vector<int> peers;
    int silent = -1;
    Beat own;
    const NetworkState network = lookAtNetworks();
    const HeldUp::Seen seen = heldUp.look();
    const bool isIdle = !hasMoved.exchange(false) && seen.isIdle;
    {
      std::lock_guard lock(mutex);
      steps = {steps.pulse, seen.isHeldUp || network.isStalled, isIdle};
      own = {steps.pulse.step,
             steps.pulse.patience.count(),
             steps.pulse.computesHere,
             steps.isHeldUp,
             steps.isIdle,
             network.isUnseen,
             waitsFor()};
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
      post(peer, FrameKind::Alive, {reinterpret_cast<const char *>(&own), sizeof(own)});
    if (auto stall = launch.rank == 0 ? findStall() : std::nullopt) {
      for (int peer : peers)
        post(peer, FrameKind::Stalled, bytesOf(static_cast<int32_t>(stall->count())));
      shortenLimit(*stall);
    }
  }
}

void ProcessWorld::Impl::hearAlive(int peer, const std::string &text) {
  Beat beat;
  if (text.size() != sizeof(beat))
    return;
  std::memcpy(&beat, text.data(), sizeof(beat));
  std::lock_guard lock(mutex);
  controls[peer].waitsFor = static_cast<int>(beat.waitsFor);
  controls[peer].usesUnseenNetwork = beat.usesUnseenNetwork != 0;
  controls[peer].steps = {{beat.step, std::chrono::seconds(beat.patience), beat.computesHere != 0},
                          beat.isHeldUp != 0,
                          beat.isIdle != 0};
}

void ProcessWorld::Impl::setPulse(const StepPulse &said) {
  std::lock_guard lock(mutex);
  steps.pulse = said;
  timeLimit = wholeLimit;
}

/// What is silent is found by that. Networks between machines may stall for longer than a step, of
/// which some don't tell.
std::optional<std::chrono::seconds> ProcessWorld::Impl::findStall() {
  std::lock_guard lock(mutex);
  std::vector<RankBeat> all{steps};
  for (const auto &[peer, control] : controls) {
    all.push_back(control.steps);
    const bool mayStall = !control.isNear && control.usesUnseenNetwork;
    if (mayStall || control.silentBeats >= kSilentBeats)
      all.back().isHeldUp = true;
  }
  return stallFinder.find(all);
}

void ProcessWorld::Impl::hearStalled(const std::string &text) {
  if (int32_t seconds = numberOf(text); seconds > 0)
    shortenLimit(std::chrono::seconds(seconds));
}

void ProcessWorld::Impl::shortenLimit(std::chrono::milliseconds limit) {
  std::lock_guard lock(mutex);
  timeLimit = std::min(timeLimit.load(), limit);
  for (Waiter *waiter : waiters)
    asio::post(waiter->io, [] {}); // it looks at the limit again
}

void ProcessWorld::Impl::tellTimedOut(const Status &status, const Late &late) {
  if (launch.rank == 0)
    noteLate(0, late);
  if (launch.rank == 0)
    asio::co_spawn(io, blame(late, status.message()), asio::detached);
  else
    post(0, FrameKind::TimedOut,
         bytesOf(late.missing.value_or(kNoRank)) + bytesOf(late.isDeviceDone) + status.message());
}

Status ProcessWorld::Impl::timedOut(const Status &status, const Late &late) {
  tellTimedOut(status, late);
  waitFor(kBlameLimit, [&] { return isAborted(); });
  abort(status);
  return check();
}

/// How long devices need to end is known where steps have hung for long.
Status ProcessWorld::Impl::deviceTimedOut(const Status &status,
                                          const std::function<bool()> &isDone) {
  const std::chrono::milliseconds stall = limit();
  if (stall >= wholeLimit)
    return timedOut(status, {});
  tellTimedOut(status, {});
  constexpr std::chrono::milliseconds kPause(10);
  const auto end = Clock::now() + timeToEnd(stall) + kBlameLimit;
  for (bool hasEnded = false; !isAborted() && Clock::now() < end;) {
    if (!hasEnded && isDone()) {
      hasEnded = true;
      if (launch.rank == 0)
        hearDeviceEnded(0);
      else
        post(0, FrameKind::DeviceEnded, "");
    }
    waitFor(kPause, [&] { return isAborted(); });
  }
  abort(status);
  return check();
}

void ProcessWorld::Impl::hearDeviceEnded(int rank) {
  std::lock_guard lock(mutex);
  devices.add(rank);
}

void ProcessWorld::Impl::hearTimedOut(int peer, const std::string &text) {
  constexpr size_t kHead = 2 * sizeof(int32_t);
  const int missing = numberOf(text);
  if (launch.rank != 0 || text.size() < kHead || missing >= launch.worldSize)
    return;
  Late late;
  if (missing >= 0)
    late.missing = missing;
  late.isDeviceDone = numberOf(text.substr(sizeof(int32_t))) > 0;
  noteLate(peer, late);
  asio::co_spawn(io, blame(late, text.substr(kHead)), asio::detached);
}

void ProcessWorld::Impl::noteLate(int rank, const Late &late) {
  std::lock_guard lock(mutex);
  if (late.isDeviceDone)
    devices.add(rank);
  isDeviceLate = isDeviceLate || !late.missing;
}

bool ProcessWorld::Impl::doDevicesHang() const {
  std::lock_guard lock(mutex);
  return isDeviceLate;
}

/// Where devices hang, who waits for its own names one.
asio::awaitable<void> ProcessWorld::Impl::blame(Late late, std::string text) {
  const std::chrono::milliseconds stall = limit();
  if (stall >= wholeLimit)
    co_await asio::steady_timer(io, kBlameTime).async_wait(asio::use_awaitable);
  else if (!late.missing)
    co_await awaitDevices(stall);
  else if (late.isDeviceDone) {
    co_await asio::steady_timer(io, 2 * kNoticeTime).async_wait(asio::use_awaitable);
    if (doDevicesHang())
      co_return;
  }
  abort({ErrorCategory::RankLost, text + whoIsToBlame(late.missing)});
}

/// Until all devices have ended or those that haven't hang, or a rank has said for whom it waits.
asio::awaitable<void> ProcessWorld::Impl::awaitDevices(std::chrono::milliseconds stall) {
  auto areAll = [&] {
    std::lock_guard lock(mutex);
    return devices.areAll();
  };
  const auto end = Clock::now() + timeToEnd(stall);
  asio::steady_timer timer(io);
  while (!isAborted() && !areAll() && Clock::now() < end) {
    timer.expires_after(std::chrono::milliseconds(10));
    co_await timer.async_wait(asio::use_awaitable);
  }
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
    text = rank < 0 ? devices.namingOthers() : ", or for rank: " + std::to_string(rank);
  }
  if (rank >= 0)
    rank = lastOfChain(rank, [&](int of) {
      auto control = controls.find(of);
      const int next = control == controls.end() ? waitsFor() : control->second.waitsFor;
      return isSilent(of) || next < 0 ? std::nullopt : std::optional(next);
    });
  if (missing)
    text = namingLast(*missing, rank);
  if (isSilent(rank))
    text += ", whose process does not answer";
  return text;
}

} // namespace dtc::rt
