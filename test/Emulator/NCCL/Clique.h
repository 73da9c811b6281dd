// The ranks of a communicator, and how they meet.
//
// Every rank counts the collectives that its stream carries out. The n-th ones of all ranks meet.
// They must be the same operation with the same count, type and reduction, or all ranks fail at
// once. The last rank to come moves the data of all. A rank that waits too long, or whose peer's
// device has failed, fails with a message that says who is missing. So nothing ever hangs.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "dtc-cuda/Nccl.h"

namespace dtc::emulator {

class Device;

unsigned bytesOf(cuda::ncclDataType_t type);
std::string nameOf(cuda::ncclDataType_t type);

/// The bytes of the results of `count` elements of each rank. Halves are summed in 32 bits and
/// rounded once.
std::vector<std::byte> reduce(const std::vector<const std::byte *> &inputs, size_t count,
                              cuda::ncclDataType_t type, cuda::ncclRedOp_t operation);

enum class Request : uint32_t {
  Join,
  State,
  AwaitComplete,
  Connect, ///< of a first call: the host connects ranks before it goes to its stream
  Collect,
  Exchange,
  Split,
  Abort
};
enum class Collective : uint32_t { AllReduce, AllGather, ReduceScatter };

/// What a rank asks of its clique.
struct Question {
  Request request;
  unsigned rank = 0;
  Device *device = nullptr; ///< of a rank that joins; null for one of another process
  /// Of a collective.
  Collective kind = Collective::AllReduce;
  size_t count = 0;
  cuda::ncclDataType_t type = cuda::ncclFloat32;
  cuda::ncclRedOp_t reduction = cuda::ncclSum;
  /// Of a split: how many this rank has asked for, and which part it wants.
  uint64_t number = 0;
  int color = 0, key = 0;
  /// Of a rank that connects: whom with; the number of ranks where with all.
  unsigned peer = 0;
};
/// "all_reduce of 5 f32 (sum)".
std::string describe(const Question &collective);

/// What a rank sends to another one, or receives. A collective has one of each.
struct Message {
  bool isSend;
  unsigned peer;
  uint64_t address;
  size_t count;
  cuda::ncclDataType_t type;
  std::byte *data = nullptr; ///< what lies at the address

  uint64_t bytes() const { return count * bytesOf(type); }
  Range range() const { return {address, address + bytes()}; }
};
using Messages = std::vector<Message>;

struct Answer {
  /// Of a state: all ranks have joined. Of a rank that connects: its peers do, too. Of a
  /// split: all have asked. Else: it wasn't aborted.
  bool isTrue = true;
  unsigned rank = 0, ranks = 0; ///< of the part of a split
  std::string text = "";        ///< of a state: the first failure, or empty
};

/// Its ranks are threads of this process, or of that which made its id (RemoteClique.cpp).
class Clique {
public:
  Clique(std::string name, size_t size) : title(std::move(name)), size(size) {}
  virtual ~Clique() = default;

  /// Throws where the ranks disagree, one is missing, or two have one number.
  virtual Answer ask(const Question &question, const Messages &messages = {}) = 0;

  const std::string title;
  const size_t size;
};

/// Its ranks are threads of this process.
std::shared_ptr<Clique> makeLocalClique(const std::string &name, size_t size);

/// A name that no other clique has on this machine; this process answers to it (RemoteClique.cpp).
std::string newCliqueName();

/// Cliques by what their ranks know: a unique id, or which split of which clique they come from.
std::shared_ptr<Clique> cliqueNamed(const std::string &name, size_t size);

} // namespace dtc::emulator
