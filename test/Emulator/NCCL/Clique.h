// The ranks of a communicator, and how they meet.
//
// Every rank counts the collectives that its stream carries out. The n-th ones of all ranks meet.
// They must be the same operation with the same count, type and reduction, or all ranks fail at
// once. The last rank to come moves the data of all. A rank that waits too long, or whose peer's
// device has failed, fails with a message that says who is missing. So nothing ever hangs.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "Emulator/Device/Device.h"
#include "Emulator/NCCL/Elements.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace dtc::emulator {

enum class Collective { AllReduce, AllGather, ReduceScatter };

/// One rank's part of a collective.
struct Contribution {
  Collective kind;
  uint64_t source = 0, target = 0; // addresses
  size_t count = 0;
  cuda::ncclDataType_t type = cuda::ncclFloat32;
  cuda::ncclRedOp_t reduction = cuda::ncclSum;
  std::byte *sourceBytes = nullptr, *targetBytes = nullptr; // what lies there

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
  std::byte *data = nullptr; // what lies at the address

  uint64_t bytes() const { return count * bytesOf(type); }
};

/// The bytes that messages read and write.
Accesses accessesOf(const std::vector<Message> &messages);

/// The ranks of a communicator: of this process (LocalClique), or of that which made its id
/// (RemoteClique.cpp).
class Clique {
public:
  Clique(std::string name, size_t size) : name(std::move(name)), numRanks(size) {}
  virtual ~Clique() = default;

  size_t size() const { return numRanks; }
  const std::string &title() const { return name; }

  /// A rank joins with its device, which is null for a rank of another process. Throws where
  /// another one has this rank already.
  virtual void join(unsigned rank, Device *device) = 0;
  virtual bool isComplete() = 0;
  virtual void awaitComplete(unsigned rank) = 0;

  /// Carries out a rank's next collective; called by its stream. False where it was aborted.
  virtual bool meet(unsigned rank, const Contribution &contribution) = 0;
  /// Carries out messages that may all be under way at once; likewise.
  virtual bool exchange(unsigned rank, const std::vector<Message> &messages) = 0;

  /// A rank asks for its `number`th split, of which it wants the part of a color. Returns the ranks
  /// of that part, in the order of their keys, once all have asked.
  virtual std::optional<std::vector<unsigned>> split(unsigned rank, uint64_t number, int color,
                                                     int key) = 0;

  /// A rank ends its own waits, and no device fails. From now on nothing comes to pass. As with
  /// NCCL over NVLink, no other rank learns of it: each waits until it has aborted its own.
  virtual void abort(unsigned rank) = 0;

  /// The first failure, or empty.
  virtual std::string failure() = 0;

private:
  std::string name;
  size_t numRanks;
};

/// A name that no other clique has on this machine; this process answers to it (RemoteClique.cpp).
std::string newCliqueName();

/// Cliques by what their ranks know: a unique id, or which split of which clique they come from.
std::shared_ptr<Clique> cliqueNamed(const std::string &name, size_t size);

class LocalClique : public Clique {
public:
  LocalClique(std::string name, size_t size)
      : Clique(std::move(name), size), members(size), rounds(size, 0), aborted(size, false) {}

  void join(unsigned rank, Device *device) override;
  bool isComplete() override;
  void awaitComplete(unsigned rank) override;
  bool meet(unsigned rank, const Contribution &contribution) override {
    return unlessAborted([&] { takePart(rank, contribution); });
  }
  bool exchange(unsigned rank, const std::vector<Message> &messages) override {
    return unlessAborted([&] { takePart(rank, messages); });
  }
  std::optional<std::vector<unsigned>> split(unsigned rank, uint64_t number, int color,
                                             int key) override;
  void abort(unsigned rank) override;
  std::string failure() override;

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

  template <typename Work> bool unlessAborted(Work &&work) {
    try {
      work();
      return true;
    } catch (const Aborted &) {
      return false;
    }
  }
  /// Of an operation that begins. After an abort, ranks that gave their parts before may use that
  /// memory again, so that none comes to pass.
  Lock begin(unsigned rank);
  void takePart(unsigned rank, const Contribution &contribution);
  void takePart(unsigned rank, const std::vector<Message> &messages);
  void carryOut(const Round &round);
  void requireAgreement(const Round &round, unsigned rank);
  std::shared_ptr<bool> post(unsigned rank, const Message &message);
  template <typename Condition>
  void await(Lock &lock, unsigned rank, const std::string &what, Condition &&condition);
  [[noreturn]] void fail(const std::string &message);
  std::string missing(const std::string &what) const;
  bool hasAll() const;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Device *>> members; // by rank; none until it has joined
  std::vector<uint64_t> rounds;                 // how many collectives each rank has begun
  std::map<uint64_t, Round> open;
  std::map<std::pair<unsigned, unsigned>, std::deque<Pending>> sends,
      receives; // by source and target
  /// Color and key by rank, of each split.
  std::map<uint64_t, std::map<unsigned, std::pair<int, int>>> splits;
  std::string failed;
  std::vector<bool> aborted; // by rank
};

} // namespace dtc::emulator
