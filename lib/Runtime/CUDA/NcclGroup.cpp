#include "NcclGroup.h"

#include <algorithm>
#include <utility>

namespace dtc::rt::cuda {

RankProgress::~RankProgress() = default;

Result<NcclGroup *> RankProgress::group(const GroupKey &key, const ExchangeCall &call) {
  SharedTurn turn;
  if (auto known = groups.find(key); known != groups.end())
    return known->second.get();
  Result<const Nccl *> nccl = library.get();
  if (!nccl)
    return nccl.status();
  auto position = std::ranges::find(key.ranks, communicator.rank()) - key.ranks.begin();
  auto made = std::make_unique<NcclGroup>(*this, **nccl, book.find(key), static_cast<int>(position),
                                          call.kind + " at " + call.name);
  if (Status status = made->begin(); !status.isOk())
    return status;
  return groups.emplace(key, std::move(made)).first->second.get();
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
  for (auto &[key, group] : groups)
    if (Status status = group->asyncError(); !status.isOk() && communicator.check().isOk())
      return fail(std::move(status));
  Status status = this->status();
  if (!status.isOk())
    abortGroups();
  return status;
}

Status RankProgress::checkTime(Clock::time_point &since, uint64_t &activity) {
  if (Clock::now() - since < communicator.timeLimit())
    return Status::ok();
  uint64_t now = activityOfOthers();
  if (now != activity) {
    activity = now;
    since = Clock::now();
    return Status::ok();
  }
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(communicator.timeLimit());
  std::string waited = "rank " + std::to_string(communicator.rank()) + " waited " +
                       std::to_string(seconds.count()) + " s ";
  for (auto &[key, group] : groups)
    if (std::optional<NcclGroup::Waiting> what = group->waitsFor())
      return failLate(waited + what->text, what->rank);
  return failLate(waited + "for its GPU, which doesn't end what all ranks have called (--timeout)",
                  std::nullopt);
}

Status RankProgress::failLate(const std::string &text, std::optional<int> missing) {
  Status reason(ExitCode::RankLost, text);
  return fail(recording == 0 ? communicator.waitedTooLong(reason, missing) : reason);
}

uint64_t RankProgress::activityOfOthers() const {
  uint64_t total = 0;
  for (auto &[key, group] : groups)
    total += group->activityOfOthers();
  return total;
}

void RankProgress::abortGroups() {
  for (auto &[key, group] : groups)
    group->abort();
}

void RankProgress::queueEnds() {
  SharedTurn turn;
  if (!status().isOk())
    abortGroups();
  if (--openQueues == 0)
    groups.clear();
}

NcclGroup::~NcclGroup() {
  if (comm)
    nccl.ncclCommDestroy(comm);
}

Status NcclGroup::begin() {
  Result<ncclUniqueId> id = ledger->join(position, nccl);
  if (!id)
    return id.status();
  ncclConfig_t config;
  config.blocking = 0;
  return DTC_CUDA_CALL(nccl, ncclCommInitRankConfig, &comm, size(), *id, position, &config);
}

Status NcclGroup::settle() {
  Status status = progress.await([&]() -> Result<bool> {
    if (!comm)
      return true;
    ncclResult_t state = ncclSuccess;
    DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclCommGetAsyncError, comm, &state));
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
  std::string who = "rank " + std::to_string(ledger->ranks()[position]) + ", in " + firstCall;
  return nccl.check(state, "NCCL").in(who);
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

void NcclGroup::abort() {
  if (comm)
    nccl.ncclCommAbort(comm);
  comm = nullptr;
}

} // namespace dtc::rt::cuda
