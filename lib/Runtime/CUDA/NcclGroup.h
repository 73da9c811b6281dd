// A rank's end of a communicator of NCCL, and all those that a rank has.
//
// Once all ranks have prepared their operations they know which communicators are needed. One of
// all ranks is split into the others (GroupSplits.h). Where that can't be, or saves nothing, each
// is made anew. None of these blocks, so that the order doesn't matter. Splits come one after
// another, in the same order on all ranks. NCCL connects ranks on the host: all in a communicator's
// first collective, and two in their first message. So they make these calls, in the same order,
// too: issuing a step waits for nobody.
#pragma once

#include "Gpu.h"
#include "GroupSplits.h"
#include "SharedTurn.h"

#include "../EndedDevices.h"

#include "dtc-rt/Communicator.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <utility>

namespace dtc::rt::cuda {

class NcclGroup;

/// Whom messages go to and come from, by position in the group. Collectives of NCCL have none.
struct Peers {
  std::set<int> to, from;
};

/// A call that is made again whenever a recorded step is.
struct RecordedCall {
  NcclGroup *group;
  std::shared_ptr<const ExchangeCall> call;
};

/// The communicators of a rank, its first failure, and waiting that ends with the run.
///
/// NCCL destroys and aborts a communicator once no graph is left that has captured its calls. So
/// the last one of queues and graphs takes the communicators with it. Ranks do so before the GPU of
/// any rank of the process is given back, as NCCL frees what all of these have at once. And aborts
/// are made on threads of their own.
class RankProgress {
public:
  RankProgress(const Gpu &gpu, Communicator &communicator, LedgerBook &book,
               LoadedOnce<Nccl> &library)
      : gpu(gpu), communicator(communicator), book(book), library(library),
        wholeLimit(communicator.timeLimit()) {}
  ~RankProgress();

  /// The group of these ranks, which this rank takes part in, for a call that it will make.
  Result<NcclGroup *> group(const GroupKey &key, const ExchangeCall &call, const Peers &peers);
  std::vector<GroupKey> groupKeys() const;
  /// Makes the communicators, when all ranks have said which groups they need.
  Status beginGroups(const std::vector<std::vector<GroupKey>> &groupsOfRanks);
  /// Makes first calls on each, with two elements of memory that are nobody's.
  Status connectGroups(Address elements, CUstream stream);

  /// Ends the run; the first failure is kept. Returns the reason.
  Status fail(Status reason);
  /// Not ok once this rank or another one has failed.
  Status status() const;
  /// What is issued now is recorded: calls of NCCL are kept for later, and what fails doesn't
  /// end the run.
  void beginRecording() { recording = ++recordings; }
  std::vector<RecordedCall> endRecording();
  /// The number of the recording that is made; 0 where work is issued to be done.
  uint64_t currentRecording() const { return recording; }
  /// Before a call of NCCL.
  Status announce(NcclGroup &group, const std::shared_ptr<const ExchangeCall> &call);
  /// NCCL before 2.26 may launch what is called on several communicators in any order. Ranks would
  /// wait for each other crosswise. There, a call waits for the one before, on the GPU.
  Status followLastCall(CUstream stream) const;
  Status noteCall(CUstream stream);
  /// Waits until poll(), a Result<bool>, is true; until the run ends, or for the time limit in
  /// which no other rank has done anything.
  template <typename Poll> Status await(Poll &&poll);
  /// Of a queue or a graph.
  void useBegins() { ++uses; }
  void useEnds();

private:
  using Clock = std::chrono::steady_clock;
  /// Where the library is too old to keep the order of calls itself.
  Status beginOrder(const Nccl &nccl);
  /// Whether the library splits communicators; where it is too old, rank 0 says so.
  bool canSplit(const Nccl &nccl) const;
  Status split(const Nccl &nccl, const GroupSplits &splits);
  NcclGroup &addGroup(const Nccl &nccl, const GroupKey &key, std::string firstCall);
  /// An error of this rank's communicators, or that of another rank.
  Status interruption();
  struct Waiting {
    uint64_t activity;                      ///< of others
    Clock::time_point since = Clock::now(); ///< when they had done all that
    Clock::time_point looked = since;       ///< when this was looked at
  };
  /// Whether other ranks have done nothing for too long.
  bool isLate(Waiting &waiting) const;
  /// Fails because this rank has waited too long: for others that it names, or for its GPU.
  Status failLate(const std::function<Result<bool>()> &poll);
  /// Fails because its GPU doesn't end what all have called.
  Status failForGpu(const std::string &waited, const std::function<Result<bool>()> &poll);
  uint64_t activityOfOthers() const;
  /// What communicators do on the GPU ends soon after, as does their memory once no graph is left.
  void abortGroups();
  void endGroups();

  const Gpu &gpu;
  Communicator &communicator;
  LedgerBook &book;
  LoadedOnce<Nccl> &library;
  std::map<GroupKey, std::unique_ptr<NcclGroup>> groups;
  std::vector<std::thread> aborts;
  int uses = 0;
  CUevent lastCall = nullptr; ///< of NCCL; null where the library keeps the order itself
  uint64_t lastRecording = 0; ///< that it belongs to
  uint64_t recording = 0, recordings = 0;
  std::vector<RecordedCall> recordedCalls;
  Status failure = Status::ok();
  const std::chrono::milliseconds wholeLimit; ///< it is shorter where steps hang
};

class NcclGroup {
public:
  NcclGroup(RankProgress &progress, const Nccl &nccl, std::shared_ptr<GroupLedger> ledger,
            int position, std::string firstCall)
      : progress(progress), nccl(nccl), ledger(std::move(ledger)), position(position),
        firstCall(std::move(firstCall)) {}
  ~NcclGroup();

  int size() const { return static_cast<int>(ledger->ranks().size()); }
  /// Makes a communicator of its own, unless there is one.
  Status begin();
  /// Waits until what was begun has been enqueued.
  Status settle();
  /// All ranks say that they take part, before the first split.
  void takePart() { ledger->takePart(position); }
  /// Makes the child's communicator, with all ranks of this one. Of some there is no child.
  Status split(int color, NcclGroup *child);
  /// A call that is made later. All ranks of the group make calls of the same kinds.
  void willMake(const Peers &peers);
  /// First calls of the kinds that are made later: a sum, and messages.
  Status connect(Address elements, CUstream stream);
  /// Writes down that this rank makes the call.
  Status enter(const std::shared_ptr<const ExchangeCall> &call) {
    return ledger->enter(position, call);
  }
  /// Makes the calls that `calls`, a function that returns a Status, asks of NCCL as one.
  template <typename Calls>
  Status perform(const std::shared_ptr<const ExchangeCall> &call, CUstream stream, Calls &&calls);

  Status asyncError() const;
  /// Who it is, and what its communicator is for.
  std::string place() const;
  /// "in all_reduce at gradients for rank: 1", and the first of these ranks.
  struct Waiting {
    std::string text;
    int rank;
  };
  /// Nothing where this rank waits for no other.
  std::optional<Waiting> waitsFor() const;
  uint64_t activityOfOthers() const { return ledger->activityOfOthers(position); }
  /// Gives up the communicator, which whoever called this aborts. Null where there is none.
  ncclComm_t release() { return std::exchange(comm, nullptr); }

  const Nccl &calls() const { return nccl; }
  ncclComm_t handle() const { return comm; }

private:
  RankProgress &progress;
  const Nccl &nccl;
  std::shared_ptr<GroupLedger> ledger;
  int position;
  std::string firstCall;
  Peers peers; ///< of all messages
  bool hasCollectives = false;
  ncclComm_t comm = nullptr;     ///< null once it was released
  ncclComm_t incoming = nullptr; ///< what a split makes
  bool hasBegun = false;
  bool isReady = false;
};

template <typename Poll> Status RankProgress::await(Poll &&poll) {
  constexpr std::chrono::microseconds kShortSleep(500), kLongSleep(100'000);
  std::chrono::microseconds sleep(10);
  const Clock::time_point begin = Clock::now();
  Waiting waiting{activityOfOthers()};
  for (;;) {
    {
      SharedTurn turn;
      Result<bool> done = poll();
      if (!done)
        return fail(done.status());
      if (Status status = interruption(); *done || !status.isOk())
        return status;
    }
    if (isLate(waiting))
      return failLate(poll);
    std::this_thread::sleep_for(sleep);
    // Who wakes often for long looks as if it were held up (HeldUp.h).
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
    sleep = std::min(2 * sleep, std::clamp(waited / 100, kShortSleep, kLongSleep));
  }
}

template <typename Calls>
Status NcclGroup::perform(const std::shared_ptr<const ExchangeCall> &call, CUstream stream,
                          Calls &&calls) {
  if (!hasBegun)
    if (Status status = begin(); !status.isOk())
      return status;
  if (!isReady)
    if (Status status = settle(); !status.isOk())
      return status;
  if (Status status = progress.status(); !status.isOk())
    return status;
  if (Status status = progress.announce(*this, call); !status.isOk())
    return progress.fail(std::move(status));
  if (Status status = progress.followLastCall(stream); !status.isOk())
    return progress.fail(std::move(status));
  isReady = false;
  Status status = DTC_CUDA_CALL(nccl, ncclGroupStart);
  if (status.isOk())
    status = calls();
  Status ended = DTC_CUDA_CALL(nccl, ncclGroupEnd);
  if (status.isOk())
    status = std::move(ended);
  if (!status.isOk())
    return progress.fail(std::move(status).in(call->kind + " at " + call->name));
  if (status = settle(); status.isOk())
    if (status = progress.noteCall(stream); !status.isOk())
      return progress.fail(std::move(status));
  return status;
}

} // namespace dtc::rt::cuda
