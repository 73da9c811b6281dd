// The ranks of a communicator, and how they meet.
//
// Every rank counts the collectives that its stream carries out. The n-th ones of all ranks meet:
// they must be the same operation with the same count, type and reduction, or all ranks fail at
// once. The last rank to come moves the data of all. A rank that waits too long, or whose peer's
// device has failed, fails with a message that says who is missing, so that nothing ever hangs.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "Emulator/Device/Device.h"
#include "Emulator/NCCL/Elements.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace dtc::emulator {

enum class Collective { AllReduce, AllGather, ReduceScatter };

/// One rank's part of a collective.
struct Contribution {
  Collective kind;
  uint64_t source = 0, target = 0; // addresses
  size_t count = 0;
  cuda::ncclDataType_t type = cuda::ncclFloat32;
  cuda::ncclRedOp_t reduction = cuda::ncclSum;
  Device *device = nullptr;

  bool agrees(const Contribution &other) const {
    return kind == other.kind && count == other.count && type == other.type &&
           (kind == Collective::AllGather || reduction == other.reduction);
  }
  std::string text() const;
  Range sourceRange(size_t ranks) const;
  Range targetRange(size_t ranks) const;
};

/// One rank's part of a message between two ranks.
struct Message {
  bool isSend;
  unsigned peer;
  uint64_t address;
  size_t count;
  cuda::ncclDataType_t type;
  Device *device;

  uint64_t bytes() const { return count * bytesOf(type); }
};

class Clique {
public:
  Clique(std::string name, size_t size)
      : name(std::move(name)), devices(size, nullptr), rounds(size, 0) {}

  size_t size() const { return devices.size(); }
  const std::string &title() const { return name; }

  /// A rank joins with its device. Throws where another one has this rank already.
  void join(unsigned rank, Device &device);
  bool isComplete();
  void awaitComplete(unsigned rank);

  /// Carries out a rank's next collective; called by its stream.
  Accesses meet(unsigned rank, const Contribution &contribution) {
    return unlessAborted([&] { return takePart(rank, contribution); });
  }

  /// Carries out messages that may all be under way at once.
  Accesses exchange(unsigned rank, const std::vector<Message> &messages) {
    return unlessAborted([&] { return takePart(rank, messages); });
  }

  /// Ends every wait of every rank. What was waiting moves nothing, and no device fails: as with
  /// NCCL, the ranks learn of it from ncclCommGetAsyncError.
  void abort(const std::string &why);

  /// The first failure, or empty.
  std::string failure();

private:
  struct Round {
    std::map<unsigned, Contribution> contributions;
    bool isDone = false;
    size_t left = 0;
  };
  struct Pending {
    Message message;
    std::shared_ptr<bool> isDone;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct Aborted {}; ///< thrown out of a wait

  template <typename Work> Accesses unlessAborted(Work &&work) {
    try {
      return work();
    } catch (const Aborted &) {
      return {};
    }
  }
  Accesses takePart(unsigned rank, const Contribution &contribution);
  Accesses takePart(unsigned rank, const std::vector<Message> &messages);
  void carryOut(const Round &round);
  void requireAgreement(const Round &round, unsigned rank);
  std::shared_ptr<bool> post(unsigned rank, const Message &message);
  template <typename Condition>
  void await(Lock &lock, unsigned rank, const std::string &what, Condition &&condition);
  [[noreturn]] void fail(const std::string &message);
  std::string missing(const std::string &what) const;

  std::string name;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Device *> devices; // by rank; null until it has joined
  std::vector<uint64_t> rounds;  // how many collectives each rank has begun
  std::map<uint64_t, Round> open;
  std::map<std::pair<unsigned, unsigned>, std::deque<Pending>> sends,
      receives; // by source and target
  std::string failed;
  bool isAborted = false;
};

} // namespace dtc::emulator
