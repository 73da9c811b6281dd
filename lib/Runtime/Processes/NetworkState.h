// Whether networks hold this process up, so that its steps are long though nothing hangs.
//
//   a connection of TCP                                       held up
//   data is on its way, and is sent again for want of answer   yes
//   all that was sent has arrived                              no: the other process takes its time
//   the other end has no room, and says so                     no: likewise
//
// The sender sees it, for what the others wait for from it. Networks that the system knows nothing
// of, as InfiniBand, may stall unseen.
#pragma once

#include <netinet/tcp.h>

namespace dtc::rt {

struct NetworkState {
  bool isStalled = false;
  bool isUnseen = false; ///< the process uses a network of which this can't be known
};

/// Whether what was sent over a connection doesn't arrive.
inline bool isStalled(const tcp_info &connection) {
  return connection.tcpi_unacked > 0 && connection.tcpi_retransmits > 0;
}

/// Of all connections that this process has open, also those of libraries.
NetworkState lookAtNetworks();

} // namespace dtc::rt
