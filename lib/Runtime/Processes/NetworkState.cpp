#include "NetworkState.h"

#include <algorithm>
#include <filesystem>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

namespace dtc::rt {
namespace {

/// Devices through which a process sends without the system: InfiniBand and its like, Slingshot,
/// Omni-Path.
constexpr const char *kUnseenNetworks[] = {"/dev/infiniband/uverbs", "/dev/cxi", "/dev/hfi1"};

} // namespace

NetworkState lookAtNetworks() {
  NetworkState state;
  std::error_code error;
  std::filesystem::directory_iterator file("/proc/self/fd", error), end;
  for (; !error && file != end; file.increment(error)) {
    std::error_code isGone;
    const std::string path = std::filesystem::read_symlink(file->path(), isGone).string();
    tcp_info connection{};
    socklen_t bytes = sizeof(connection);
    if (path.starts_with("socket:") &&
        ::getsockopt(std::stoi(file->path().filename().string()), IPPROTO_TCP, TCP_INFO,
                     &connection, &bytes) == 0)
      state.isStalled = state.isStalled || isStalled(connection);
    state.isUnseen = state.isUnseen || std::ranges::any_of(kUnseenNetworks, [&](const char *name) {
                       return path.starts_with(name);
                     });
  }
  return state;
}

} // namespace dtc::rt
