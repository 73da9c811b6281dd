#include "dtc-rt/Processes/LocalProcesses.h"
#include "dtc-io/ExitCodes.h"
#include "dtc-io/PrintableLine.h"

#include "Asio.h"
#include "EndSignals.h"

#include "dtc-rt/Processes/Launch.h"
#include "dtc-rt/Program/Package.h"

#include <openssl/rand.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtc::rt {
namespace {

/// The parent's process number, in the environment of the ranks.
constexpr const char *kParentVariable = "DTC_RUN_PARENT";
/// Where a rank tells how it ended.
constexpr int kParentDescriptor = 3;
/// How long the other ranks may live after one has failed. Those that still wait for its start
/// don't notice; others need up to three seconds to end by themselves.
constexpr auto kGrace = std::chrono::seconds(8);
/// A second signal ends a rank at once, where it isn't the first request once more. One that hangs
/// where it takes none has this time.
constexpr auto kSameRequest = std::chrono::seconds(1), kSecondGrace = std::chrono::seconds(2);
/// More are for several machines.
constexpr int64_t kMostProcesses = 512;

std::atomic<int> lastSignal{0};

Result<std::string> drawToken() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1)
    return failed("no random numbers for the job's token");
  std::string token;
  for (unsigned char byte : bytes) {
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", byte);
    token += hex;
  }
  return token;
}

/// Free now; should another process take it, the ranks meet at a port behind it.
Result<int> findPort() {
  asio::io_context io;
  std::error_code error;
  asio::ip::tcp::acceptor probe(io);
  asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  probe.open(any.protocol(), error);
  if (!error)
    probe.bind(any, error);
  if (error)
    return failed("no port for the ranks to meet at: " + error.message());
  return int(probe.local_endpoint().port());
}

/// The ranks of this machine and what is known of them.
class LocalJob {
public:
  LocalJob(int64_t ranks, std::string token, int port)
      : token(std::move(token)), port(port), ranks(static_cast<size_t>(ranks)) {}

  ~LocalJob() {
    for (Rank &rank : ranks) {
      if (rank.process > 0)
        ::kill(rank.process, SIGKILL);
      end(rank);
    }
  }

  Status start(char *const *arguments) {
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (Status status = start(rank, arguments); !status.isOk())
        return status;
    return Status::ok();
  }

  /// Returns when all have ended.
  Status wait() {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> killTime, firstSignal;
    while (std::ranges::any_of(ranks, [](const Rank &rank) { return rank.process > 0; })) {
      waitForSome();
      const Clock::time_point now = Clock::now();
      if (int number = lastSignal.exchange(0)) {
        signalAll(number);
        if (!killTime && now - firstSignal.value_or(now) > kSameRequest)
          killTime = now + kSecondGrace;
        firstSignal = firstSignal.value_or(now);
      }
      if (!killTime && !outcome().isOk())
        killTime = now + kGrace;
      if (killTime && now > *killTime)
        signalAll(SIGKILL);
    }
    return outcome();
  }

private:
  struct Rank {
    pid_t process = 0; ///< 0: not running
    int descriptor = -1;
    std::string told;
  };

  std::vector<std::string> environmentOf(size_t rank) const {
    std::vector<std::string> variables = {"RANK=" + std::to_string(rank),
                                          "LOCAL_RANK=" + std::to_string(rank),
                                          "WORLD_SIZE=" + std::to_string(ranks.size()),
                                          "LOCAL_WORLD_SIZE=" + std::to_string(ranks.size()),
                                          "MASTER_ADDR=127.0.0.1",
                                          "MASTER_PORT=" + std::to_string(port),
                                          std::string(kTokenVariable) + "=" + token,
                                          std::string(kParentVariable) + "=" +
                                              std::to_string(::getpid())};
    size_t own = variables.size();
    for (char **entry = ::environ; *entry; ++entry) {
      std::string_view name = std::string_view(*entry).substr(0, std::strcspn(*entry, "=") + 1);
      if (std::none_of(variables.begin(), variables.begin() + static_cast<ptrdiff_t>(own),
                       [&](const std::string &variable) { return variable.starts_with(name); }))
        variables.emplace_back(*entry);
    }
    return variables;
  }

  /// In a process group of its own: a terminal's signals come once, from the parent. Those that ask
  /// for its end wait until it can save.
  Status start(size_t rank, char *const *arguments) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return failed(std::string("cannot start the ranks: ") + std::strerror(errno));
    std::vector<std::string> variables = environmentOf(rank);
    std::vector<char *> environment;
    for (std::string &variable : variables)
      environment.push_back(variable.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], kParentDescriptor);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EndSignals::setIn(blocked);
    ::posix_spawnattr_setsigmask(&attributes, &blocked);
    int error = ::posix_spawn(&ranks[rank].process, "/proc/self/exe", &actions, &attributes,
                              arguments, environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    ::close(ends[1]);
    ranks[rank].descriptor = ends[0];
    if (error == 0)
      return Status::ok();
    ranks[rank].process = 0;
    return failed("cannot start rank " + std::to_string(rank) + ": " + std::strerror(error));
  }

  /// Reads what ranks tell; the end of that is the end of the process.
  void waitForSome() {
    std::vector<pollfd> polled;
    for (const Rank &rank : ranks)
      polled.push_back({rank.descriptor, POLLIN, 0});
    if (::poll(polled.data(), polled.size(), /*milliseconds=*/200) <= 0)
      return;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i].revents == 0)
        continue;
      char piece[4096];
      ssize_t count = ::read(ranks[i].descriptor, piece, sizeof(piece));
      if (count > 0)
        ranks[i].told.append(piece, static_cast<size_t>(count));
      else if (count == 0)
        note(i, end(ranks[i]));
    }
  }

  /// Reaps the process; how it ended, as waitpid has it.
  static int end(Rank &rank) {
    int how = 0;
    if (rank.process > 0)
      while (::waitpid(rank.process, &how, 0) < 0 && errno == EINTR) {
      }
    rank.process = 0;
    if (rank.descriptor >= 0)
      ::close(rank.descriptor);
    rank.descriptor = -1;
    return how;
  }

  void note(size_t rank, int how) {
    std::string name = "rank " + std::to_string(rank);
    if (WIFSIGNALED(how)) {
      keep(killed, {ErrorCategory::RankLost, name + " was lost: it was ended by signal " +
                                                 std::to_string(WTERMSIG(how)) + " (" +
                                                 ::strsignal(WTERMSIG(how)) + ")"});
      return;
    }
    int code = WEXITSTATUS(how);
    if (code == 0)
      return;
    ErrorCategory category = io::categoryOf(code);
    Status told(category, ranks[rank].told.empty()
                              ? name + " ended with exit code " + std::to_string(code)
                              : ranks[rank].told);
    keep(category == ErrorCategory::RankLost ? lost : cause, told);
  }

  static void keep(std::optional<Status> &first, const Status &status) {
    if (!first)
      first = status;
  }

  /// What a rank found itself says most; that others were lost, least.
  Status outcome() const {
    for (const std::optional<Status> &status : {cause, killed, lost})
      if (status)
        return *status;
    return Status::ok();
  }

  void signalAll(int number) {
    for (const Rank &rank : ranks)
      if (rank.process > 0)
        ::kill(rank.process, number);
  }

  std::string token;
  int port;
  std::vector<Rank> ranks;
  std::optional<Status> cause, killed, lost; ///< the first of each kind
};

} // namespace

Status runLocalProcesses(const std::string &artifact, char *const *arguments) {
  Result<Package> package = Package::open(artifact);
  if (!package)
    return package.status();
  int64_t ranks = package->manifest().worldSize;
  if (ranks > kMostProcesses)
    return {ErrorCategory::NoFit, artifact +
                                      ": has more ranks than one machine should have processes "
                                      "(start them by a launcher on several): " +
                                      std::to_string(ranks)};
  Result<std::string> token = drawToken();
  if (!token)
    return token.status();
  Result<int> port = findPort();
  if (!port)
    return port.status();
  EndSignals signals([](int number) { lastSignal.store(number); }, /*flags=*/0);
  LocalJob job(ranks, *token, *port);
  if (Status status = job.start(arguments); !status.isOk())
    return status;
  return job.wait();
}

std::optional<ParentLink> ParentLink::find() {
  const char *parent = std::getenv(kParentVariable);
  if (!parent)
    return std::nullopt;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::to_string(::getppid()) != parent) {
    std::fprintf(stderr, "dtc-run: error: %s: the process that starts the ranks has ended: %s\n",
                 kParentVariable, io::printableLine(parent).c_str());
    std::_Exit(io::exitCodeOf(ErrorCategory::Failed));
  }
  return ParentLink(kParentDescriptor);
}

void ParentLink::tell(const Status &status) const {
  std::string_view text = status.message();
  while (!text.empty()) {
    ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno != EINTR)
      return;
    text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
}

} // namespace dtc::rt
