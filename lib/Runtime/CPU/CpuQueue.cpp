#include "CpuQueue.h"

#include <exception>

namespace dtc::rt {

void RankProgress::complete(CpuEvent &event, uint64_t number) {
  {
    std::lock_guard lock(mutex);
    event.completed = number;
  }
  changed.notify_all();
}

void RankProgress::await(const CpuEvent &event, uint64_t number) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return event.completed >= number || failed.load(); });
}

void RankProgress::fail(const Status &reason) {
  {
    std::lock_guard lock(mutex);
    if (failed.load())
      return;
    failure = reason;
    failed.store(true, std::memory_order_release);
  }
  changed.notify_all();
  communicator.abort(reason);
}

Status RankProgress::status() const {
  if (!hasFailed())
    return communicator.check();
  std::lock_guard lock(mutex);
  return failure;
}

void CpuQueue::wait(Event &event) {
  auto &own = static_cast<CpuEvent &>(event);
  if (own.delayed)
    own.delayed->bring(own);
  waitFor(own, own.issued);
}

Status DelayedQueue::submit(CpuOperation &operation, std::span<const Address> addresses) {
  entries.push_back({&operation, {addresses.begin(), addresses.end()}});
  return progress.status();
}

void DelayedQueue::signal(Event &event) {
  auto &own = static_cast<CpuEvent &>(event);
  own.delayed = this;
  ++own.delayedSignals;
  entries.push_back({nullptr, {}, &own});
}

void DelayedQueue::waitFor(CpuEvent &event, uint64_t number) {
  entries.push_back({nullptr, {}, &event, number});
}

void DelayedQueue::issue(const Entry &entry) {
  if (entry.operation) {
    if (Status status = inner.submit(*entry.operation, entry.addresses); !status.isOk())
      progress.fail(status);
  } else if (entry.awaited) {
    inner.waitFor(*entry.event, *entry.awaited);
  } else {
    --entry.event->delayedSignals;
    inner.signal(*entry.event);
  }
}

void DelayedQueue::bring(const CpuEvent &event) {
  while (event.delayedSignals > 0 && !entries.empty()) {
    Entry first = std::move(entries.front());
    entries.pop_front();
    issue(first);
  }
}

Status DelayedQueue::synchronize() {
  for (; !entries.empty(); entries.pop_front())
    issue(entries.front());
  return inner.synchronize();
}

ThreadQueue::ThreadQueue(RankProgress &progress, int threads,
                         std::unique_ptr<Communicator> end)
    : CpuQueue(std::move(end)), progress(progress), thread([this, threads] { work(threads); }) {}

ThreadQueue::~ThreadQueue() {
  {
    std::lock_guard lock(mutex);
    isClosing = true;
  }
  added.notify_all();
  thread.join();
}

Status ThreadQueue::submit(CpuOperation &operation, std::span<const Address> addresses) {
  if (progress.hasFailed())
    return progress.status();
  push({&operation, {addresses.begin(), addresses.end()}});
  return Status::ok();
}

void ThreadQueue::signal(Event &event) {
  auto &own = static_cast<CpuEvent &>(event);
  push({nullptr, {}, &own, ++own.issued, /*signals=*/true});
}

void ThreadQueue::waitFor(CpuEvent &event, uint64_t number) {
  push({nullptr, {}, &event, number, /*signals=*/false});
}

Status ThreadQueue::synchronize() {
  std::unique_lock lock(mutex);
  idle.wait(lock, [&] { return entries.empty() && !isBusy; });
  lock.unlock();
  return progress.status();
}

void ThreadQueue::push(Entry entry) {
  {
    std::lock_guard lock(mutex);
    entries.push_back(std::move(entry));
  }
  added.notify_one();
}

void ThreadQueue::work(int teamSize) {
  threads.emplace(teamSize);
  std::vector<Entry> batch;
  std::unique_lock lock(mutex);
  for (;;) {
    added.wait(lock, [&] { return !entries.empty() || isClosing; });
    if (entries.empty())
      return;
    batch.swap(entries);
    isBusy = true;
    lock.unlock();
    for (const Entry &entry : batch)
      carryOut(entry);
    batch.clear();
    lock.lock();
    isBusy = false;
    idle.notify_all();
  }
}

void ThreadQueue::carryOut(const Entry &entry) {
  if (progress.hasFailed())
    return;
  if (Status status = communicator().check(); !status.isOk())
    return progress.fail(status); // because of another rank: what is left isn't worth doing
  if (!entry.operation) {
    if (entry.signals)
      progress.complete(*entry.event, entry.number);
    else
      progress.await(*entry.event, entry.number);
    return;
  }
  try {
    if (Status status = entry.operation->carryOut(entry.addresses.data()); !status.isOk())
      progress.fail(status);
  } catch (const std::exception &error) { // out of memory; no other is known
    progress.fail(failed(error.what()));
  }
}

} // namespace dtc::rt
