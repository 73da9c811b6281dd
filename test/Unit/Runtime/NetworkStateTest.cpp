#include "Processes/NetworkState.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;

namespace dtc::rt {
namespace {

/// Turns the loopback of this network namespace on or off.
bool setLoopback(bool isUp) {
  const int any = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::string("lo").copy(request.ifr_name, sizeof(request.ifr_name));
  request.ifr_flags = static_cast<short>(isUp ? IFF_UP : 0);
  const bool isDone = ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
  ::close(any);
  return isDone;
}

/// Both ends of a connection.
struct Ends {
  int sender = -1, receiver = -1;
};

Ends connectOverLoopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto *place = reinterpret_cast<sockaddr *>(&address);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listener, place, bytes) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, place, &bytes) != 0)
    return {};
  Ends ends{::socket(AF_INET, SOCK_STREAM, 0), -1};
  if (::connect(ends.sender, place, bytes) == 0)
    ends.receiver = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return ends;
}

bool isStalledWithin(std::chrono::milliseconds most) {
  for (const auto end = std::chrono::steady_clock::now() + most;
       std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(10ms))
    if (lookAtNetworks().isStalled)
      return true;
  return false;
}

/// What was seen, or that there may be no network of this process's own.
enum Seen { Right, NoNamespace, NoConnection, StalledBefore, StalledByAFullEnd, NotStalled };

/// In a process of its own, which has a network of its own.
Seen cutAConnection() {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !setLoopback(true))
    return NoNamespace;
  const Ends ends = connectOverLoopback();
  if (ends.receiver < 0)
    return NoConnection;
  ::send(ends.sender, "a", 1, 0);
  if (isStalledWithin(300ms))
    return StalledBefore;
  const Ends full = connectOverLoopback(); // its other end takes nothing
  ::fcntl(full.sender, F_SETFL, O_NONBLOCK);
  const std::string much(1 << 20, 'a');
  while (::send(full.sender, much.data(), much.size(), 0) > 0) {
  }
  if (isStalledWithin(500ms))
    return StalledByAFullEnd;
  ::close(full.receiver);
  ::close(full.sender);
  setLoopback(false);
  ::send(ends.sender, "a", 1, 0);
  return isStalledWithin(5s) ? Right : NotStalled;
}

TEST(NetworkState, AConnectionIsStalledWhereWhatWasSentDoesNotArrive) {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(cutAConnection());
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how));
  if (WEXITSTATUS(how) == NoNamespace)
    GTEST_SKIP() << "this process may have no network of its own";
  EXPECT_EQ(WEXITSTATUS(how), Right);
}

TEST(NetworkState, FilesAreNoNetwork) { EXPECT_FALSE(lookAtNetworks().isUnseen); }

} // namespace
} // namespace dtc::rt
