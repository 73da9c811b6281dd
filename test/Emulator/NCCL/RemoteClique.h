// Communicators whose ranks are processes.
//
// The process that makes a communicator's id serves its clique at a socket of this machine, which
// the id names. A rank of another process asks there, and a thread takes part in its place:
//
//   process 4711: rank 0 -> LocalClique <- a thread for rank 1 <-socket- RemoteClique <- rank 1
//
// So all that LocalClique checks is checked between processes too.
#pragma once

#include "Emulator/NCCL/Clique.h"

namespace dtc::emulator {

/// A name that no other clique has on this machine; this process answers to it.
std::string newCliqueName();

/// Cliques by what their ranks know: a unique id, or which split of which clique they come from.
std::shared_ptr<Clique> cliqueNamed(const std::string &name, size_t size);

} // namespace dtc::emulator
