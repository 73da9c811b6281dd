#include "ThreadGroup.h"

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
  auto done = [&] { return generation != mine || world.isAborted(); };
  bool inTime = changed.wait_until(lock, std::chrono::steady_clock::now() + world.limit(), done);
  if (generation != mine)
    return Status::ok();
  if (inTime)
    return world.check();
  Status status = timedOut(position, what, purpose);
  lock.unlock();
  world.abort(status);
  return status;
}

Status ThreadGroup::timedOut(int position, const char *what, const char *purpose) const {
  std::string missing;
  for (size_t peer = 0; peer < ranks.size(); ++peer)
    if (!present[peer])
      missing += (missing.empty() ? "" : ", ") + std::to_string(ranks[peer]);
  return world.timedOut(ranks[position], what, purpose, missing);
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

void ThreadWorld::Impl::abort(const Status &reason) {
  std::vector<ThreadGroup *> all;
  std::vector<ThreadMailbox *> channels;
  {
    std::lock_guard lock(mutex);
    if (aborted.load())
      return;
    why = reason;
    aborted.store(true, std::memory_order_release);
    for (ThreadGroup &group : groups)
      all.push_back(&group);
    for (auto &[key, mailbox] : mailboxes)
      channels.push_back(&mailbox);
  }
  for (ThreadGroup *group : all)
    group->wake();
  for (ThreadMailbox *mailbox : channels)
    mailbox->wake();
}

Status ThreadWorld::Impl::reason() const {
  std::lock_guard lock(mutex);
  return why;
}

Status ThreadWorld::Impl::timedOut(int rank, const char *what, const char *purpose,
                                   const std::string &missing) const {
  auto seconds = std::chrono::duration<double>(timeLimit).count();
  std::string at = purpose[0] ? std::string(" at ") + purpose : "";
  return {ErrorCategory::RankLost, "rank " + std::to_string(rank) + " waited " +
                                       std::to_string(static_cast<int64_t>(seconds)) + " s in " +
                                       what + at + " for rank: " + missing};
}

Status ThreadWorld::Impl::check() const {
  if (!isAborted())
    return Status::ok();
  return {ErrorCategory::RankLost, "ended because of another rank: " + reason().message()};
}

} // namespace dtc::rt
