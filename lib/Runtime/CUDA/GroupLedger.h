// What the ranks of a group have called so far. Ranks that are threads of one process share a
// ledger; a process hears what others write into theirs (ProcessLedger.h).
//
// NCCL neither says which rank is missing nor notices that two ranks call different things; it
// waits, or moves the wrong bytes. So each rank writes its call down before it makes it:
//
//   rank 0:  1 all_reduce "gradients"   2 all_gather "weights"
//   rank 1:  1 all_reduce "gradients"                              -> rank 0 waits for rank 1
//
// The n-th calls of all ranks must be the same.
#pragma once

#include "Libraries.h"

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtc::rt::cuda {

/// A collective, or one end of a message.
struct ExchangeCall {
  std::string kind;      ///< "all_reduce", "send"
  std::string name;      ///< of the operation, said in errors
  std::string signature; ///< what must be the same on all ranks
  bool isMessage = false;
};

/// Groups of the same ranks are different ones where their names differ.
struct GroupKey {
  std::string name;
  std::vector<int> ranks; ///< by position; of a message: sender, receiver
  auto operator<=>(const GroupKey &) const = default;
};

class GroupLedger {
public:
  explicit GroupLedger(std::vector<int> ranks);
  virtual ~GroupLedger() = default;

  const std::vector<int> &ranks() const { return members; }
  /// The same id for all; a rank that has asked for it takes part.
  virtual Result<ncclUniqueId> join(int position, const Nccl &nccl);
  /// The rank takes part in a communicator that needs no id.
  virtual void takePart(int position);
  /// Writes a rank's next call down. An error where another rank's is a different one.
  virtual Status enter(int position, std::shared_ptr<const ExchangeCall> call);
  /// How often other ranks have joined or called.
  uint64_t activityOfOthers(int position) const;
  /// The ranks that a rank waits for, and the first call that they haven't made; the call is
  /// null where they haven't joined. Nothing where there are none.
  struct Missing {
    std::shared_ptr<const ExchangeCall> call;
    std::vector<int> ranks;
  };
  std::optional<Missing> missing(int position) const;

protected:
  mutable std::mutex mutex;
  std::optional<ncclUniqueId> id;
  std::vector<bool> joined; ///< by position

private:
  struct Entry {
    std::shared_ptr<const ExchangeCall> call;
    int position; ///< of the rank that came first
  };
  Status differ(const Entry &first, const Entry &second) const;

  std::vector<int> members;
  std::vector<uint64_t> counts; ///< calls of each rank
  std::deque<Entry> entries;    ///< calls that some have made and others haven't
  uint64_t firstEntry = 0;      ///< the number of entries.front()
};

/// The ledgers of a process.
class LedgerBook {
public:
  virtual ~LedgerBook() = default;
  virtual std::shared_ptr<GroupLedger> find(const GroupKey &key);

private:
  std::mutex mutex;
  std::map<GroupKey, std::shared_ptr<GroupLedger>> ledgers;
};

} // namespace dtc::rt::cuda
