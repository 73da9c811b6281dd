// The ledgers of a rank whose peers are other processes.
//
// Each process writes into ledgers of its own, and tells the others at intervals what it has
// written. So every process has the calls of all ranks of its groups, a moment later:
//
//   rank 0:  1 all_reduce "gradients"  --news-->  rank 1's ledger: rank 0 has made call 1
//
// NCCL's ids travel the same way: the lowest rank of a group makes its id, the others wait for it.
#pragma once

#include "GroupLedger.h"

#include "dtc-rt/Communicator.h"

#include <condition_variable>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>

namespace dtc::rt::cuda {

class ProcessLedgerBook;

class ProcessLedger : public GroupLedger {
public:
  ProcessLedger(ProcessLedgerBook &book, size_t number, const GroupKey &key)
      : GroupLedger(key.ranks), book(book), number(number), name(key.name) {}

  Result<ncclUniqueId> join(int position, const Nccl &nccl) override;
  void takePart(int position) override;
  Status enter(int position, std::shared_ptr<const ExchangeCall> call) override;

  // What another rank has done.
  void hearJoin(int rank, const std::string &idBytes);
  Status hearCall(int rank, std::shared_ptr<const ExchangeCall> call);

private:
  int positionOf(int rank) const;
  Result<ncclUniqueId> awaitId(int position);

  ProcessLedgerBook &book;
  size_t number;
  std::string name;
  std::condition_variable changed;
};

/// A thread of its own exchanges news with the other ranks, which all have one.
class ProcessLedgerBook : public LedgerBook {
public:
  /// On the rank's thread. The communicator outlives the book.
  explicit ProcessLedgerBook(Communicator &communicator);
  /// Tells the others that there will be no more news.
  ~ProcessLedgerBook() override;

  std::shared_ptr<GroupLedger> find(const GroupKey &key) override { return findOwn(key); }

  // News of this rank, by ledgers.
  void tellJoin(size_t ledger, const std::string &name, const std::vector<int> &ranks,
                const std::string &idBytes);
  void tellCall(size_t ledger, const std::shared_ptr<const ExchangeCall> &call);

  Communicator &communicator;

private:
  /// What a rank has told so far, by its own numbers. Ledgers of groups that this rank isn't in
  /// are null.
  struct Peer {
    std::map<size_t, std::shared_ptr<ProcessLedger>> ledgers;
    std::vector<std::shared_ptr<const ExchangeCall>> calls;
  };

  std::shared_ptr<ProcessLedger> findOwn(const GroupKey &key);
  void exchangeNews();
  /// What wasn't told yet, as text.
  std::string takeNews(bool isEnd);
  /// Whether it was news of a new group.
  Result<bool> hear(int rank, const nlohmann::json &news);

  std::unique_ptr<Communicator> queue; ///< the thread's
  std::mutex mutex;                    ///< of what follows, to the thread
  std::condition_variable wake;
  bool isEnding = false;
  std::map<GroupKey, std::shared_ptr<ProcessLedger>> ledgers;
  nlohmann::json joins, newCalls, entered;
  std::unordered_map<const ExchangeCall *, size_t> callNumbers;
  std::vector<std::shared_ptr<const ExchangeCall>> told; ///< so that their addresses stay theirs
  std::map<int, Peer> peers;                             ///< the thread's
  std::thread thread;
};

} // namespace dtc::rt::cuda
