#include "NcclGroup.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace dtc::rt::cuda {

RankProgress::~RankProgress() {
  endGroups();
  if (lastCall)
    gpu.driver.cuEventDestroy_v2(lastCall);
}

void RankProgress::useEnds() {
  if (--uses == 0)
    endGroups();
}

void RankProgress::endGroups() {
  {
    SharedTurn turn;
    groups.clear();
  }
  for (std::thread &abort : std::exchange(aborts, {}))
    abort.join();
}

Result<NcclGroup *> RankProgress::group(const GroupKey &key, const ExchangeCall &call,
                                        const Peers &peers) {
  SharedTurn turn;
  auto known = groups.find(key);
  if (known == groups.end()) {
    Result<const Nccl *> nccl = library.get();
    if (!nccl)
      return nccl.status();
    addGroup(**nccl, key, call.kind + " at " + call.name);
    known = groups.find(key);
  }
  known->second->willMake(peers);
  return known->second.get();
}

NcclGroup &RankProgress::addGroup(const Nccl &nccl, const GroupKey &key, std::string firstCall) {
  auto position = std::ranges::find(key.ranks, communicator.rank()) - key.ranks.begin();
  auto made = std::make_unique<NcclGroup>(*this, nccl, book.find(key), static_cast<int>(position),
                                          std::move(firstCall));
  return *groups.emplace(key, std::move(made)).first->second;
}

std::vector<GroupKey> RankProgress::groupKeys() const {
  std::vector<GroupKey> keys;
  for (const auto &[key, group] : groups)
    keys.push_back(key);
  return keys;
}

Status RankProgress::beginGroups(const std::vector<std::vector<GroupKey>> &groupsOfRanks) {
  if (groups.empty())
    return Status::ok();
  Result<const Nccl *> nccl = library.get();
  if (!nccl)
    return nccl.status();
  if (canSplit(**nccl))
    if (GroupSplits splits = planSplits(groupsOfRanks);
        std::ranges::count(splits.parent, communicator.rank()))
      if (Status status = split(**nccl, splits); !status.isOk())
        return status;
  for (auto &[key, group] : groups) {
    SharedTurn turn;
    if (Status status = group->begin(); !status.isOk())
      return status;
  }
  return beginOrder(**nccl);
}

Status RankProgress::beginOrder(const Nccl &nccl) {
  constexpr int kFirstWithOrder = 22600;
  int version = 0;
  if (!nccl.ncclGetVersion || groups.size() < 2)
    return Status::ok();
  DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclGetVersion, &version));
  return version >= kFirstWithOrder
             ? Status::ok()
             : DTC_CUDA_CALL(gpu.driver, cuEventCreate, &lastCall, CU_EVENT_DISABLE_TIMING);
}

/// What is recorded begins after all that was called before.
Status RankProgress::followLastCall(CUstream stream) const {
  if (!lastCall || lastRecording != recording)
    return Status::ok();
  return DTC_CUDA_CALL(gpu.driver, cuStreamWaitEvent, stream, lastCall, CU_EVENT_WAIT_DEFAULT);
}

Status RankProgress::noteCall(CUstream stream) {
  if (!lastCall)
    return Status::ok();
  lastRecording = recording;
  return DTC_CUDA_CALL(gpu.driver, cuEventRecord, lastCall, stream);
}

Status RankProgress::connectGroups(Address elements, CUstream stream) {
  for (auto &[key, group] : groups)
    if (Status status = group->connect(elements, stream); !status.isOk())
      return status;
  return Status::ok();
}

bool RankProgress::canSplit(const Nccl &nccl) const {
  constexpr int kFirstWithSplits = 21801;
  int version = 0;
  if (!nccl.ncclGetVersion) // what takes NCCL's place where ranks share a GPU
    return false;
  if (nccl.ncclGetVersion(&version) == ncclSuccess && version >= kFirstWithSplits &&
      nccl.ncclCommSplit)
    return true;
  if (communicator.rank() == 0)
    std::fprintf(stderr,
                 "dtc-run: note: NCCL %d can't split communicators (21801 and newer can), so each "
                 "group's is made anew\n",
                 version);
  return false;
}

/// A parent that is none of the groups is only there to be split.
Status RankProgress::split(const Nccl &nccl, const GroupSplits &splits) {
  const GroupKey parentKey = splits.whole.value_or(GroupKey{"all groups", splits.parent});
  NcclGroup &parent = splits.whole ? *groups.at(parentKey)
                                   : addGroup(nccl, parentKey, "the start of communicators");
  std::vector<std::pair<int, NcclGroup *>> children; // with their colors
  for (const std::vector<GroupKey> &round : splits.rounds) {
    constexpr int kNoColor = -1;
    children.emplace_back(kNoColor, nullptr);
    for (size_t color = 0; color < round.size(); ++color)
      if (std::ranges::count(round[color].ranks, communicator.rank()))
        children.back() = {static_cast<int>(color), groups.at(round[color]).get()};
    if (NcclGroup *child = children.back().second)
      child->takePart();
  }
  DTC_CUDA_TRY(parent.begin());
  DTC_CUDA_TRY(parent.settle());
  for (auto [color, child] : children)
    DTC_CUDA_TRY(parent.split(color, child));
  if (!splits.whole)
    groups.erase(parentKey);
  return Status::ok();
}

std::vector<RecordedCall> RankProgress::endRecording() {
  recording = 0;
  return std::exchange(recordedCalls, {});
}

Status RankProgress::announce(NcclGroup &group, const std::shared_ptr<const ExchangeCall> &call) {
  if (recording == 0)
    return group.enter(call);
  recordedCalls.push_back({&group, call});
  return Status::ok();
}

Status RankProgress::fail(Status reason) {
  SharedTurn turn;
  if (recording != 0)
    return reason;
  if (failure.isOk()) {
    // Where another rank failed first, what happens to this one follows from it.
    Status others = communicator.check();
    failure = others.isOk() ? std::move(reason) : std::move(others);
    communicator.abort(failure);
    abortGroups();
  }
  return failure;
}

Status RankProgress::status() const {
  SharedTurn turn;
  return failure.isOk() ? communicator.check() : failure;
}

Status RankProgress::interruption() {
  const bool doesHang = communicator.timeLimit() < wholeLimit; // others may give up theirs
  for (auto &[key, group] : groups)
    if (Status status = group->asyncError();
        !status.isOk() && !doesHang && communicator.check().isOk())
      return fail(std::move(status));
  Status status = this->status();
  if (!status.isOk())
    abortGroups();
  return status;
}

/// The time limit may become shorter meanwhile. Ranks then notice it at nearly the same time.
bool RankProgress::isLate(Waiting &waiting) const {
  constexpr std::chrono::milliseconds kBetween(100);
  const Clock::time_point now = Clock::now();
  const auto isOver = [&] { return now - waiting.since >= communicator.timeLimit(); };
  if (!isOver() && now - waiting.looked < kBetween)
    return false;
  SharedTurn turn;
  waiting.looked = now;
  if (uint64_t activity = activityOfOthers(); activity != waiting.activity) {
    waiting.activity = activity;
    waiting.since = now;
  }
  return isOver();
}

Status RankProgress::failLate(const std::function<Result<bool>()> &poll) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(communicator.timeLimit());
  const std::string waited = "rank " + std::to_string(communicator.rank()) + " waited " +
                             std::to_string(seconds.count()) + " s ";
  std::optional<NcclGroup::Waiting> missing;
  {
    SharedTurn turn;
    for (auto &[key, group] : groups)
      if (!missing)
        missing = group->waitsFor();
  }
  if (!missing)
    return failForGpu(waited, poll);
  const Status reason(ErrorCategory::RankLost, waited + missing->text);
  return fail(recording == 0 ? communicator.waitedTooLong(reason, missing->rank) : reason);
}

/// Without its communicators a GPU that only waits for others ends, and one that hangs doesn't.
Status RankProgress::failForGpu(const std::string &waited,
                                const std::function<Result<bool>()> &poll) {
  const Status reason(ErrorCategory::RankLost,
                      waited +
                          "for its GPU, which doesn't end what all ranks have called (--timeout)");
  if (recording != 0)
    return fail(reason);
  const Clock::time_point begin = Clock::now();
  return fail(communicator.deviceTookTooLong(reason, [&] {
    if (Clock::now() - begin < kNoticeTime)
      return false;
    SharedTurn turn;
    abortGroups();
    Result<bool> done = poll();
    return done && *done;
  }));
}

uint64_t RankProgress::activityOfOthers() const {
  uint64_t total = 0;
  for (auto &[key, group] : groups)
    total += group->activityOfOthers();
  return total;
}

/// Each on a thread of its own: what one does on the GPU may come before what another one does.
void RankProgress::abortGroups() {
  for (auto &[key, group] : groups) {
    ncclComm_t comm = group->release();
    if (!comm)
      continue;
    const Nccl &nccl = group->calls();
    if (sharesGpu()) // it waits for nothing there, and needs this thread's turn
      nccl.ncclCommAbort(comm);
    else
      aborts.emplace_back([&nccl, &gpu = gpu, comm] {
        gpu.makeCurrent();
        nccl.ncclCommAbort(comm);
      });
  }
}

NcclGroup::~NcclGroup() {
  if (comm)
    nccl.ncclCommDestroy(comm);
}

Status NcclGroup::split(int color, NcclGroup *child) {
  ncclConfig_t config;
  config.blocking = 0;
  isReady = false;
  int key = child ? child->position : 0;
  DTC_CUDA_TRY(
      DTC_CUDA_CALL(nccl, ncclCommSplit, comm, color, key, &incoming, &config).in(place()));
  DTC_CUDA_TRY(settle());
  if (child) {
    child->comm = std::exchange(incoming, nullptr);
    child->hasBegun = true;
  }
  return Status::ok();
}

Status NcclGroup::begin() {
  if (std::exchange(hasBegun, true))
    return Status::ok();
  Result<ncclUniqueId> id = ledger->join(position, nccl);
  if (!id)
    return id.status();
  ncclConfig_t config;
  config.blocking = 0;
  return DTC_CUDA_CALL(nccl, ncclCommInitRankConfig, &comm, size(), *id, position, &config)
      .in(place());
}

void NcclGroup::willMake(const Peers &more) {
  hasCollectives |= more.to.empty() && more.from.empty();
  peers.to.insert(more.to.begin(), more.to.end());
  peers.from.insert(more.from.begin(), more.from.end());
}

Status NcclGroup::connect(Address elements, CUstream stream) {
  const auto first = [&](const char *what, auto &&calls) {
    return perform(std::make_shared<ExchangeCall>(ExchangeCall{"connecting", firstCall, what}),
                   stream, calls);
  };
  if (hasCollectives)
    DTC_CUDA_TRY(first("a first sum", [&] {
      return DTC_CUDA_CALL(nccl, ncclAllReduce, elements, elements, 1, ncclFloat32, ncclSum, comm,
                           stream);
    }));
  if (peers.to.empty() && peers.from.empty())
    return Status::ok();
  return first("first messages", [&] {
    for (int peer : peers.to)
      DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclSend, elements, 1, ncclUint8, peer, comm, stream));
    for (int peer : peers.from)
      DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclRecv, elements + sizeof(float), 1, ncclUint8, peer, comm,
                                 stream));
    return Status::ok();
  });
}

Status NcclGroup::settle() {
  Status status = progress.await([&]() -> Result<bool> {
    if (!comm)
      return true;
    ncclResult_t state = ncclSuccess;
    DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclCommGetAsyncError, comm, &state).in(place()));
    DTC_CUDA_TRY(nccl.check(state, "NCCL").in(place()));
    return state != ncclInProgress;
  });
  isReady = status.isOk();
  return status;
}

Status NcclGroup::asyncError() const {
  if (!comm)
    return Status::ok();
  ncclResult_t state = ncclSuccess;
  DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclCommGetAsyncError, comm, &state));
  return nccl.check(state, "NCCL").in(place());
}

std::string NcclGroup::place() const {
  return "rank " + std::to_string(ledger->ranks()[position]) + ", in " + firstCall;
}

std::optional<NcclGroup::Waiting> NcclGroup::waitsFor() const {
  std::optional<GroupLedger::Missing> missing = ledger->missing(position);
  if (!missing)
    return std::nullopt;
  std::string ranks;
  for (int rank : missing->ranks)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  std::string call = missing->call ? missing->call->kind + " at " + missing->call->name : firstCall;
  return Waiting{"in " + call + " for rank: " + ranks, missing->ranks.front()};
}

} // namespace dtc::rt::cuda
