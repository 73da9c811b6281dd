// How the ranks of a job meet.
#include "Peers.h"

#include "dtc-rt/Program/Sha256.h"

#include <algorithm>
#include <sstream>
#include <unistd.h>

namespace dtc::rt {

using asio::ip::tcp;

namespace {

/// Rank 0 takes the first port that is free of these; the others ask at each.
constexpr int kPortsTried = 16;
/// A call that isn't answered in this time is given up.
constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr auto kPause = std::chrono::milliseconds(50);
/// In which ranks meet that are asked to stop. They then stop together, as they do later.
constexpr auto kAskedTime = std::chrono::seconds(3);

/// Closes the socket where a handshake takes too long.
class Watchdog {
public:
  Watchdog(asio::io_context &io, const std::shared_ptr<tcp::socket> &socket) : timer(io) {
    timer.expires_after(kAnswerTime);
    timer.async_wait([socket, isStopped = isStopped](std::error_code error) {
      std::error_code ignored;
      if (!error && !*isStopped)
        socket->close(ignored);
    });
  }
  ~Watchdog() { stop(); }
  /// Also where the time was over a moment ago, and the socket isn't closed yet.
  void stop() {
    *isStopped = true;
    timer.cancel();
  }

private:
  asio::steady_timer timer;
  std::shared_ptr<bool> isStopped = std::make_shared<bool>(false);
};

Result<asio::ip::address> resolve(asio::io_context &io, const std::string &host) {
  std::error_code error;
  auto found = tcp::resolver(io).resolve(host, "", error);
  if (error || found.empty())
    return Status(ErrorCategory::Usage, "MASTER_ADDR is not known here: " + host);
  for (const auto &entry : found)
    if (entry.endpoint().address().is_v4())
      return entry.endpoint().address();
  return found.begin()->endpoint().address();
}

std::array<uint8_t, 32> digestOf(const std::string &text) {
  std::string hex = sha256({text.data(), text.size()});
  std::array<uint8_t, 32> digest{};
  std::copy_n(hex.begin(), digest.size(), digest.begin());
  return digest;
}

} // namespace

Status ProcessWorld::Impl::connect(const std::function<int()> &signal) {
  std::string place = launch.address + ":" + std::to_string(launch.port);
  Result<asio::ip::address> address = resolve(io, launch.address);
  if (!address)
    return address.status();
  endpoints[0] = tcp::endpoint(*address, launch.port);
  if (launch.rank == 0) {
    if (Status status = listenAsLeader(); !status.isOk())
      return std::move(status).in("rank 0 cannot listen at " + place);
  } else {
    asio::co_spawn(io, findLeader(), asio::detached);
  }
  thread = std::thread([this] { io.run(); });
  if (awaitStart(signal))
    return check();
  const int number = signal();
  std::string text = "rank " + std::to_string(launch.rank);
  text += number != 0 ? " was stopped by signal " + std::to_string(number) + " while it waited"
                      : " waited " + std::to_string(limit().count() / 1000) + " s";
  std::lock_guard lock(mutex);
  text += " for the start of rank: " + missingRanks();
  if (!controls.contains(0) && launch.rank != 0)
    text += ", at " + place + (sawStranger ? ", where something of another job listens" : "");
  return {ErrorCategory::RankLost, text};
}

/// False where it takes too long.
bool ProcessWorld::Impl::awaitStart(const std::function<int()> &signal) {
  auto end = Clock::now() + limit();
  for (bool isAsked = false; !waitFor(kPause, [&] { return isReady || isAborted(); });) {
    if (!isAsked && signal() != 0) {
      isAsked = true;
      end = std::min(end, Clock::now() + kAskedTime);
    }
    if (Clock::now() >= end)
      return false;
  }
  return true;
}

Status ProcessWorld::Impl::listenAsLeader() {
  std::error_code error;
  for (int i = 0; i < kPortsTried && launch.port + i <= 65535; ++i) {
    tcp::endpoint endpoint(endpoints[0].address(), static_cast<uint16_t>(launch.port + i));
    acceptor = tcp::acceptor(io);
    acceptor.open(endpoint.protocol(), error);
    if (!error)
      acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error)
      acceptor.bind(endpoint, error);
    if (!error)
      acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) {
      endpoints[0] = endpoint;
      isReady = launch.worldSize == 1;
      accept();
      asio::co_spawn(io, beat(), asio::detached);
      return Status::ok();
    }
  }
  return failed(error.message());
}

std::string ProcessWorld::Impl::missingRanks() const {
  if (launch.rank != 0 && !controls.contains(0))
    return "0";
  std::string missing;
  for (int peer = 1; launch.rank == 0 && peer < launch.worldSize; ++peer)
    if (!controls.contains(peer))
      missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
  return missing.empty() ? "another, for which rank 0 waits" : missing;
}

asio::awaitable<void> ProcessWorld::Impl::findLeader() {
  tcp::endpoint first = endpoints[0];
  for (;;) {
    for (int i = 0; i < kPortsTried && first.port() + i <= 65535; ++i) {
      tcp::endpoint endpoint(first.address(), static_cast<uint16_t>(first.port() + i));
      if (co_await tryLeader(endpoint))
        co_return;
    }
    asio::steady_timer pause(io, kPause);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

/// This rank listens where it reaches rank 0 from, at a port that the system chooses.
asio::awaitable<bool> ProcessWorld::Impl::tryLeader(tcp::endpoint endpoint) {
  auto socket = std::make_shared<tcp::socket>(io);
  Watchdog watchdog(io, socket);
  try {
    co_await socket->async_connect(endpoint, asio::use_awaitable);
    socket->set_option(tcp::no_delay(true));
    if (!acceptor.is_open()) {
      acceptor = tcp::acceptor(io, tcp::endpoint(socket->local_endpoint().address(), 0));
      accept();
    }
    auto proven = [&watchdog] { watchdog.stop(); };
    if (!co_await callPeer(*socket, launch.token, claimOf(/*isControl=*/true, ""), proven)) {
      std::lock_guard lock(mutex);
      sawStranger = true;
      co_return false;
    }
  } catch (const std::system_error &) {
    co_return false;
  }
  {
    std::lock_guard lock(mutex);
    endpoints[0] = endpoint;
    controls[0].socket = socket;
  }
  asio::co_spawn(io, follow(0), asio::detached);
  asio::co_spawn(io, beat(), asio::detached);
  co_return true;
}

Claim ProcessWorld::Impl::claimOf(bool isControl, const std::string &stream) const {
  Claim claim;
  claim.rank = static_cast<uint32_t>(launch.rank);
  claim.worldSize = static_cast<uint32_t>(launch.worldSize);
  claim.isControl = isControl;
  claim.port = isControl ? acceptor.local_endpoint().port() : 0;
  claim.stream = digestOf(stream);
  return claim;
}

void ProcessWorld::Impl::accept() {
  acceptor.async_accept([this](std::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted)
      return;
    if (!error)
      asio::co_spawn(io, greet(std::make_shared<tcp::socket>(std::move(socket))), asio::detached);
    if (error == asio::error::no_descriptors)
      abort(failed("rank " + std::to_string(launch.rank) + " has no descriptors left for " +
                   "connections (raise the limit with ulimit -n)"));
    else
      accept();
  });
}

asio::awaitable<void> ProcessWorld::Impl::greet(SharedSocket socket) {
  Watchdog watchdog(io, socket);
  try {
    std::optional<Claim> claim = co_await answerCaller(*socket, launch.token);
    if (claim && claim->rank != static_cast<uint32_t>(launch.rank)) {
      watchdog.stop();
      socket->set_option(tcp::no_delay(true));
      co_await takeClaim(*socket);
      admit(socket, *claim);
    }
  } catch (const std::system_error &) {
    co_return; // a stranger, or a rank that has ended
  }
}

void ProcessWorld::Impl::admit(SharedSocket socket, const Claim &claim) {
  int peer = static_cast<int>(claim.rank);
  std::unique_lock lock(mutex);
  if (!claim.isControl) {
    arrived[{peer, claim.stream}] = socket->release();
    lock.unlock();
    changed.notify_all();
    return;
  }
  std::string problem;
  if (claim.worldSize != static_cast<uint32_t>(launch.worldSize))
    problem = "rank " + std::to_string(peer) + " was started as one of " +
              std::to_string(claim.worldSize) + " ranks, rank 0 as one of " +
              std::to_string(launch.worldSize);
  else if (controls.contains(peer))
    problem = "two processes were started as rank " + std::to_string(peer);
  // Also where something is wrong: it is told why the run ends.
  int number = problem.empty() ? peer : -1 - peer;
  const asio::ip::address address = socket->remote_endpoint().address();
  endpoints[number] = tcp::endpoint(address, static_cast<uint16_t>(claim.port));
  controls[number].socket = socket;
  controls[number].isNear = address == socket->local_endpoint().address();
  isReady = problem.empty() && controls.size() + 1 == static_cast<size_t>(launch.worldSize);
  bool all = isReady;
  lock.unlock();
  asio::co_spawn(io, follow(number), asio::detached);
  if (all)
    sendTable();
  if (!problem.empty())
    abort({ErrorCategory::Usage, problem});
  changed.notify_all();
}

void ProcessWorld::Impl::sendTable() {
  std::string table;
  for (const auto &[peer, endpoint] : endpoints)
    table += std::to_string(peer) + " " + endpoint.address().to_string() + " " +
             std::to_string(endpoint.port()) + "\n";
  for (int peer = 1; peer < launch.worldSize; ++peer)
    post(peer, FrameKind::Table, table);
}

/// Where rank 0 is, this rank knows better.
void ProcessWorld::Impl::readTable(const std::string &text) {
  std::istringstream lines(text);
  int peer = 0, port = 0;
  std::string address;
  std::lock_guard lock(mutex);
  while (lines >> peer >> address >> port)
    if (peer != 0)
      endpoints[peer] = tcp::endpoint(asio::ip::make_address(address), static_cast<uint16_t>(port));
  isReady = true;
}

Result<tcp::socket> ProcessWorld::Impl::open(asio::io_context &own, int peer,
                                             const std::string &stream, bool calls) {
  if (!calls) {
    StreamKey key{peer, digestOf(stream)};
    waitFor(limit(), [&] { return arrived.contains(key) || isAborted(); });
    std::lock_guard lock(mutex);
    auto found = arrived.find(key);
    if (isAborted() || found == arrived.end())
      return Status(ErrorCategory::RankLost, "it has opened no connection");
    tcp::socket socket(own, endpoints[launch.rank == 0 ? 0 : peer].protocol(), found->second);
    arrived.erase(found);
    return socket;
  }
  tcp::endpoint endpoint;
  {
    std::lock_guard lock(mutex);
    endpoint = endpoints[peer];
  }
  enum class Dialled { Refused, GivenUp, Open } dialled = Dialled::GivenUp;
  std::shared_ptr<tcp::socket> socket;
  auto dial = [&]() -> asio::awaitable<void> {
    co_await socket->async_connect(endpoint, asio::use_awaitable);
    socket->set_option(tcp::no_delay(true));
    try {
      Claim claim = claimOf(/*isControl=*/false, stream);
      if (co_await callPeer(*socket, launch.token, claim, [] {}))
        dialled = Dialled::Open;
    } catch (const std::system_error &) {
      dialled = Dialled::GivenUp;
    }
  };
  const auto end = Clock::now() + limit();
  while (dialled == Dialled::GivenUp && Clock::now() < end) {
    socket = std::make_shared<tcp::socket>(own);
    dialled = Dialled::Refused;
    asio::co_spawn(own, dial, asio::detached);
    own.restart();
    if (isAborted()) // looked at after the restart: a later abort stops it
      break;
    own.run_until(end);
    if (dialled == Dialled::GivenUp)
      waitFor(kPause, [&] { return isAborted(); });
  }
  if (dialled != Dialled::Open)
    return Status(ErrorCategory::RankLost, "cannot be reached");
  return std::move(*socket);
}

} // namespace dtc::rt
