#include "ThreadGroup.h"
#include "../WaitChain.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {

ThreadGroup::ThreadGroup(ThreadWorld::Impl &world, std::vector<int> members)
    : world(world), ranks(std::move(members)), calls(ranks.size()), present(ranks.size(), false) {}

void ThreadGroup::publish(int position, const CollectiveCall &call) {
  Published &mine = calls[position];
  mine.name = call.name;
  mine.dtype = call.dtype;
  mine.variant = call.variant;
  mine.dim = call.dim;
  mine.otherDim = call.otherDim;
  mine.buffers.assign(call.buffers.begin(), call.buffers.end());
}

int ThreadGroup::findMismatch(int position) const {
  const Published &mine = calls[position];
  for (size_t peer = 0; peer < calls.size(); ++peer) {
    const Published &theirs = calls[peer];
    bool same = std::strcmp(mine.name, theirs.name) == 0 && mine.dtype == theirs.dtype &&
                mine.variant == theirs.variant && mine.dim == theirs.dim &&
                mine.otherDim == theirs.otherDim && mine.buffers.size() == theirs.buffers.size();
    for (size_t i = 0; same && i < mine.buffers.size(); ++i)
      same = mine.buffers[i].shape == theirs.buffers[i].shape;
    if (!same)
      return static_cast<int>(peer);
  }
  return -1;
}

bool ThreadGroup::anyInPlace() const {
  for (const Published &call : calls)
    for (const Transfer &buffer : call.buffers)
      if (buffer.source == buffer.target)
        return true;
  return false;
}

Status ThreadGroup::meet(int position, const char *what, const char *purpose) {
  std::unique_lock lock(mutex);
  if (world.isAborted())
    return world.check();
  if (++arrived == ranks.size()) {
    arrived = 0;
    std::fill(present.begin(), present.end(), false);
    ++generation;
    lock.unlock();
    changed.notify_all();
    return Status::ok();
  }
  present[position] = true;
  uint64_t mine = generation;
  bool inTime = world.await(changed, lock, [&] { return generation != mine || world.isAborted(); });
  if (generation != mine)
    return Status::ok();
  if (inTime)
    return world.check();
  const std::vector<int> others = missing();
  lock.unlock();
  return world.timedOut(ranks[position], what, purpose, others);
}

std::vector<int> ThreadGroup::missing() const {
  std::vector<int> result;
  for (size_t peer = 0; peer < ranks.size(); ++peer)
    if (!present[peer])
      result.push_back(ranks[peer]);
  return result;
}

std::optional<int> ThreadGroup::waitedForBy(int rank) {
  std::lock_guard lock(mutex);
  auto member = std::ranges::find(ranks, rank);
  if (member == ranks.end() || !present[static_cast<size_t>(member - ranks.begin())])
    return std::nullopt;
  return missing().front();
}

void ThreadGroup::wake() {
  {
    std::lock_guard lock(mutex);
  } // nobody is between its test and its wait
  changed.notify_all();
}

int ThreadWorld::Impl::groupOf(const std::string &queue, const std::vector<int> &ranks) {
  std::lock_guard lock(mutex);
  auto [it, isNew] = ids.try_emplace({queue, ranks}, static_cast<int>(groups.size()));
  if (isNew)
    groups.emplace_back(*this, ranks);
  return it->second;
}

ThreadMailbox &ThreadWorld::Impl::mailbox(int from, int to, uint32_t channel) {
  std::lock_guard lock(mutex);
  return mailboxes.try_emplace({from, to, channel}, *this, from, to).first->second;
}

ThreadGroup &ThreadWorld::Impl::groupAt(int id) {
  std::lock_guard lock(mutex);
  return groups[id];
}

ThreadWorld::Impl::Places ThreadWorld::Impl::places() {
  std::lock_guard lock(mutex);
  Places all;
  for (ThreadGroup &group : groups)
    all.groups.push_back(&group);
  for (auto &[key, mailbox] : mailboxes)
    all.mailboxes.push_back(&mailbox);
  return all;
}

void ThreadWorld::Impl::abort(const Status &reason) {
  {
    std::lock_guard lock(mutex);
    if (aborted.load())
      return;
    why = reason;
    aborted.store(true, std::memory_order_release);
  }
  const Places all = places();
  for (ThreadGroup *group : all.groups)
    group->wake();
  for (ThreadMailbox *mailbox : all.mailboxes)
    mailbox->wake();
}

void ThreadWorld::Impl::setPulse(int rank, const StepPulse &pulse) {
  pulses.set(rank, pulse);
  timeLimit = wholeLimit;
}

void ThreadWorld::Impl::shortenLimit(std::chrono::milliseconds limit) {
  timeLimit = std::min(timeLimit.load(), limit);
}

/// Where a rank hangs in a wait of its own, notifying may hang, too. So this looks by itself.
bool ThreadWorld::Impl::await(std::condition_variable &changed, std::unique_lock<std::mutex> &lock,
                              const std::function<bool()> &done) const {
  constexpr std::chrono::milliseconds kMostPause(500);
  const auto begin = std::chrono::steady_clock::now();
  for (auto now = begin; now < begin + limit(); now = std::chrono::steady_clock::now())
    if (changed.wait_until(lock, std::min(now + kMostPause, begin + limit()), done))
      return true;
  return done();
}

Status ThreadWorld::Impl::reason() const {
  std::lock_guard lock(mutex);
  return why;
}

std::optional<int> ThreadWorld::Impl::waitedForBy(int rank) {
  const Places all = places();
  for (ThreadGroup *group : all.groups)
    if (std::optional<int> other = group->waitedForBy(rank))
      return other;
  for (ThreadMailbox *mailbox : all.mailboxes)
    if (std::optional<int> other = mailbox->waitedForBy(rank))
      return other;
  return std::nullopt;
}

Status ThreadWorld::Impl::timedOut(int rank, const char *what, const char *purpose,
                                   const std::vector<int> &missing) {
  if (limit() < wholeLimit && endedForDevice(rank))
    return check();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit()).count();
  std::string text = "rank " + std::to_string(rank) + " waited " + std::to_string(seconds) +
                     " s in " + what + (purpose[0] ? std::string(" at ") + purpose : "") +
                     " for rank: ";
  for (int other : missing)
    text += (other == missing.front() ? "" : ", ") + std::to_string(other);
  const int last = lastOfChain(missing.front(), [this](int of) { return waitedForBy(of); });
  text += namingLast(missing.front(), last);
  const Status status(ErrorCategory::RankLost, text);
  abort(status);
  return status;
}

/// Whoever waits for its device notices it at nearly the same time, and ends the run soon.
bool ThreadWorld::Impl::endedForDevice(int rank) {
  {
    std::lock_guard lock(mutex);
    devices.add(rank);
  }
  constexpr std::chrono::milliseconds kBetween(10);
  for (auto left = 2 * kNoticeTime; left.count() > 0 && !isDeviceLate; left -= kBetween)
    std::this_thread::sleep_for(kBetween);
  for (auto left = 2 * timeToEnd(limit()); isDeviceLate && !isAborted() && left.count() > 0;
       left -= kBetween)
    std::this_thread::sleep_for(kBetween);
  return isAborted();
}

bool ThreadWorld::Impl::haveDevicesEnded() {
  std::lock_guard lock(mutex);
  return devices.areAll();
}

/// How long devices need to end is known where steps have hung for long.
Status ThreadWorld::Impl::deviceTimedOut(int rank, const Status &reason,
                                         const std::function<bool()> &isDone) {
  const std::chrono::milliseconds stall = limit();
  if (stall >= wholeLimit) {
    abort(reason);
    return this->reason();
  }
  {
    std::lock_guard lock(mutex);
    if (!judge.joinable())
      judge = std::thread([this, reason, stall] { judgeDevices(reason, stall); });
    isDeviceLate = true;
  }
  for (bool hasEnded = false; !isAborted();) {
    if (!hasEnded && isDone()) {
      std::lock_guard lock(mutex);
      devices.add(rank);
      hasEnded = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return this->reason();
}

/// On a thread of its own: what a rank does to have its device end may hang, too.
void ThreadWorld::Impl::judgeDevices(const Status &reason, std::chrono::milliseconds stall) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + timeToEnd(stall);
  while (!isAborted() && !haveDevicesEnded() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::string naming;
  {
    std::lock_guard lock(mutex);
    naming = devices.namingOthers();
  }
  abort({ErrorCategory::RankLost, reason.message() + naming});
}

Status ThreadWorld::Impl::check() const {
  if (!isAborted())
    return Status::ok();
  return {ErrorCategory::RankLost, "ended because of another rank: " + reason().message()};
}

} // namespace dtc::rt
