// What processes tell each other beside their data: how the run ends.
#include "Peers.h"

#include <algorithm>

namespace dtc::rt {

namespace {

/// The reason of an abort is known everywhere in this time, or it comes no more.
constexpr auto kToldTime = std::chrono::seconds(2);
constexpr uint32_t kMostFrameBytes = 64 << 20;

} // namespace

ProcessWorld::Impl::Impl(const Launch &launch, std::chrono::milliseconds timeLimit)
    : launch(launch), wholeLimit(timeLimit), timeLimit(timeLimit), devices(launch.worldSize),
      acceptor(io), work(asio::make_work_guard(io)) {}

ProcessWorld::Impl::~Impl() {
  io.stop();
  if (thread.joinable())
    thread.join();
  controls.clear();
  for (const auto &[key, descriptor] : arrived)
    asio::ip::tcp::socket(io, asio::ip::tcp::v4(), descriptor).close();
}

bool ProcessWorld::Impl::waitFor(std::chrono::milliseconds time,
                                 const std::function<bool()> &condition) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, time, condition);
}

asio::awaitable<void> ProcessWorld::Impl::follow(int peer) {
  SharedSocket socket;
  {
    std::lock_guard lock(mutex);
    socket = controls[peer].socket;
  }
  try {
    for (;;) {
      FrameHead head;
      co_await asio::async_read(*socket, asio::buffer(&head, sizeof(head)), asio::use_awaitable);
      if (head.bytes > kMostFrameBytes)
        break;
      std::string text(head.bytes, '\0');
      co_await asio::async_read(*socket, asio::buffer(text), asio::use_awaitable);
      handle(peer, head.kind, text);
    }
  } catch (const std::system_error &) {
    ended(peer);
    co_return;
  }
  ended(peer);
}

void ProcessWorld::Impl::handle(int peer, FrameKind kind, const std::string &text) {
  {
    std::lock_guard lock(mutex);
    controls[peer].silentBeats = 0;
  }
  switch (kind) {
  case FrameKind::Table:
    readTable(text);
    break;
  case FrameKind::Alive:
    hearAlive(peer, text);
    break;
  case FrameKind::TimedOut:
    hearTimedOut(peer, text);
    break;
  case FrameKind::DeviceEnded:
    hearDeviceEnded(peer);
    break;
  case FrameKind::Stalled:
    hearStalled(text);
    break;
  case FrameKind::Abort:
    end({ErrorCategory::RankLost, text}, text);
    break;
  case FrameKind::Done: {
    std::lock_guard lock(mutex);
    controls[peer].isDone = true;
  } break;
  }
  changed.notify_all();
}

void ProcessWorld::Impl::ended(int peer) {
  bool isExpected;
  {
    std::lock_guard lock(mutex);
    isExpected = controls[peer].isDone || peer < 0;
  }
  if (!isExpected)
    abort({ErrorCategory::RankLost, "rank " + std::to_string(peer) +
                                        " was lost: its process has ended or cannot be reached"});
}

void ProcessWorld::Impl::abort(const Status &reason) {
  bool namesRank = reason.category() == ErrorCategory::RankLost;
  end(reason,
      namesRank ? reason.message()
                : "ended because of rank " + std::to_string(launch.rank) + ": " + reason.message());
}

void ProcessWorld::Impl::end(const Status &reason, const std::string &told) {
  {
    std::lock_guard lock(mutex);
    if (isAborted())
      return;
    why = reason;
    // Before a caller can see the end and close the connections: the others would never be told.
    for (const auto &[peer, control] : controls)
      enqueue(peer, FrameKind::Abort, told);
    aborted.store(true, std::memory_order_release);
    for (Waiter *waiter : waiters)
      waiter->io.stop();
  }
  changed.notify_all();
}

Status ProcessWorld::Impl::reason() const {
  std::lock_guard lock(mutex);
  return why;
}

Status ProcessWorld::Impl::check() const {
  return isAborted() ? Status(ErrorCategory::RankLost, reason().message()) : Status::ok();
}

void ProcessWorld::Impl::post(int peer, FrameKind kind, const std::string &text) {
  std::lock_guard lock(mutex);
  enqueue(peer, kind, text);
}

void ProcessWorld::Impl::enqueue(int peer, FrameKind kind, const std::string &text) {
  FrameHead head{kind, static_cast<uint32_t>(text.size())};
  std::string frame(reinterpret_cast<const char *>(&head), sizeof(head));
  frame += text;
  auto &outbox = controls[peer].outbox;
  outbox.push_back(std::move(frame));
  ++unsent;
  if (outbox.size() == 1)
    asio::post(io, [this, peer] { write(peer); });
}

void ProcessWorld::Impl::write(int peer) {
  std::lock_guard lock(mutex);
  Control &control = controls[peer];
  auto next = [this, peer](std::error_code error, size_t) {
    size_t left;
    {
      std::lock_guard lock(mutex);
      auto &outbox = controls[peer].outbox;
      size_t gone = error ? outbox.size() : 1;
      outbox.erase(outbox.begin(), outbox.begin() + static_cast<ptrdiff_t>(gone));
      unsent -= gone;
      left = outbox.size();
    }
    changed.notify_all();
    if (left > 0)
      write(peer);
  };
  asio::async_write(*control.socket, asio::buffer(control.outbox.front()), next);
}

void ProcessWorld::Impl::waitUntilSent() {
  waitFor(kToldTime, [&] { return unsent == 0; });
}

/// Rank 0 says last that it is done: until then its failure ends the others.
Status ProcessWorld::Impl::close(const Status &status) {
  if (!status.isOk())
    abort(status);
  bool leads = launch.rank == 0;
  if (!leads && !isAborted())
    post(0, FrameKind::Done, "");
  auto allDone = [&] {
    return isAborted() ||
           std::ranges::all_of(controls, [](const auto &entry) { return entry.second.isDone; });
  };
  if (!waitFor(limit(), allDone))
    abort({ErrorCategory::RankLost,
           "rank " + std::to_string(launch.rank) + " waited at the end of the run for the others"});
  if (leads && !isAborted())
    for (int peer = 1; peer < launch.worldSize; ++peer)
      post(peer, FrameKind::Done, "");
  waitUntilSent();
  return status.isOk() ? reason() : status;
}

Status ProcessWorld::Impl::lost(int peer, const std::string &reason) {
  waitFor(kToldTime, [&] { return isAborted(); });
  abort({ErrorCategory::RankLost, "rank " + std::to_string(peer) + " was lost: " + reason});
  return check();
}

Result<std::unique_ptr<ProcessWorld>> ProcessWorld::connect(const Launch &launch,
                                                            std::chrono::milliseconds timeLimit,
                                                            const std::function<int()> &signal) {
  auto impl = std::make_unique<Impl>(launch, timeLimit);
  if (Status status = impl->connect(signal); !status.isOk())
    return impl->close(status);
  return std::unique_ptr<ProcessWorld>(new ProcessWorld(std::move(impl)));
}

ProcessWorld::ProcessWorld(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
ProcessWorld::~ProcessWorld() = default;

std::vector<int> ProcessWorld::ranks() const { return {impl->rank()}; }
void ProcessWorld::abort(const Status &reason) { impl->abort(reason); }
Status ProcessWorld::abortReason() const { return impl->reason(); }
Status ProcessWorld::close(const Status &status) { return impl->close(status); }

} // namespace dtc::rt
