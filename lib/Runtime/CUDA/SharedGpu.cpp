#include "SharedGpu.h"

#include "ReductionKernels.h"
#include "SharedTurn.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

namespace dtc::rt::cuda {
namespace {

/// A piece that passes through a slot.
constexpr uint64_t kSlotBytes = uint64_t(512) << 10;
/// What a word says of a slot: whether what empties or fills it was issued.
enum class SlotState : uint8_t { Empty, Full };

/// The driver, and what NCCL's functions would say of their last error on this thread.
const Driver *theDriver = nullptr;
thread_local std::string lastError;

ncclResult_t resultOf(const Status &status) {
  if (status.isOk())
    return ncclSuccess;
  lastError = status.message();
  return ncclUnhandledCudaError;
}

/// The communicator of some ranks: their slots and words. The slot of a pair has what one of
/// them sends to the other, the one behind them what a rank gives to all.
class SharedGroup {
public:
  static Result<std::shared_ptr<SharedGroup>> create(size_t size) {
    std::shared_ptr<SharedGroup> made(new SharedGroup(size));
    const Driver &driver = *theDriver;
    uint64_t bytes = size * (size + 1) * kSlotBytes;
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuMemAlloc_v2, &made->slots, bytes));
    auto kernels = ReductionKernels::load(driver);
    if (!kernels)
      return kernels.status();
    made->kernels = std::move(*kernels);
    return made;
  }

  /// Freeing waits for what was issued.
  ~SharedGroup() {
    if (slots)
      theDriver->cuMemFree_v2(slots);
  }

  size_t size() const { return ranks; }
  /// What a rank gives to all.
  CUdeviceptr slotOf(size_t rank) const { return slots + rank * kSlotBytes; }
  CUdeviceptr slotOf(size_t from, size_t to) const {
    return slots + (ranks + from * ranks + to) * kSlotBytes;
  }
  size_t wordOf(size_t from, size_t to, bool isMessage) const {
    return (isMessage * ranks + from) * ranks + to;
  }
  const ReductionKernels &reductions() const { return *kernels; }

  /// Who waits may not look at its rank afterwards, which is gone where the run has failed.
  static Status wait(std::shared_ptr<SharedGroup> group, size_t word, SlotState wanted) {
    SharedTurn::waitUntil([&] { return group->isOver || group->words[word] == wanted; });
    return group->isOver ? failed("the run has ended") : Status::ok();
  }
  Status write(size_t word, SlotState state) {
    words[word] = state;
    SharedTurn::notify();
    return Status::ok();
  }
  /// From now on nothing waits.
  void abort() {
    isOver = true;
    SharedTurn::notify();
  }

private:
  explicit SharedGroup(size_t size) : ranks(size), words(2 * size * size, SlotState::Empty) {}

  size_t ranks;
  CUdeviceptr slots = 0;
  std::vector<SlotState> words;
  std::unique_ptr<ReductionKernels> kernels;
  bool isOver = false;
};

/// Groups by their ids, while ranks have them.
class SharedGroups {
public:
  static SharedGroups &get() {
    static auto *groups = new SharedGroups;
    return *groups;
  }
  uint64_t newId() { return ++lastId; }
  Result<std::shared_ptr<SharedGroup>> join(uint64_t id, size_t size) {
    std::lock_guard lock(mutex);
    if (std::shared_ptr<SharedGroup> known = byId[id].lock())
      return known;
    Result<std::shared_ptr<SharedGroup>> made = SharedGroup::create(size);
    if (made)
      byId[id] = *made;
    return made;
  }

private:
  std::mutex mutex;
  std::atomic<uint64_t> lastId{0};
  std::map<uint64_t, std::weak_ptr<SharedGroup>> byId;
};

/// A rank's end of a group; what ncclComm_t points to.
class SharedRank {
public:
  SharedRank(std::shared_ptr<SharedGroup> group, size_t rank)
      : group(std::move(group)), rank(rank) {}

  static SharedRank &of(ncclComm_t comm) { return *reinterpret_cast<SharedRank *>(comm); }
  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
  void abort() { group->abort(); }

  Status allReduce(CUdeviceptr source, CUdeviceptr target, uint64_t count, ncclDataType_t type,
                   ncclRedOp_t operation, CUstream stream) const {
    return inPieces(count, bytesOf(type), [&](uint64_t at, uint64_t bytes) {
      DTC_CUDA_TRY(give([&] { return copy(ownSlot(), source + at, bytes, stream); }));
      return take([&] {
        return group->reductions().launch(type, operation, target + at, group->slotOf(0),
                                          kSlotBytes, group->size(), bytes / bytesOf(type), stream);
      });
    });
  }

  Status allGather(CUdeviceptr source, CUdeviceptr target, uint64_t bytes, CUstream stream) const {
    return inPieces(bytes, 1, [&](uint64_t at, uint64_t piece) {
      DTC_CUDA_TRY(give([&] { return copy(ownSlot(), source + at, piece, stream); }));
      return take([&] {
        for (size_t from = 0; from < group->size(); ++from)
          DTC_CUDA_TRY(copy(target + from * bytes + at, group->slotOf(from), piece, stream));
        return Status::ok();
      });
    });
  }

  /// A slot has a piece of each rank's part, one after another.
  Status reduceScatter(CUdeviceptr source, CUdeviceptr target, uint64_t count, ncclDataType_t type,
                       ncclRedOp_t operation, CUstream stream) const {
    const uint64_t part = count * bytesOf(type);
    return inPieces(
        count, bytesOf(type),
        [&](uint64_t at, uint64_t bytes) {
          DTC_CUDA_TRY(give([&] {
            for (size_t to = 0; to < group->size(); ++to)
              DTC_CUDA_TRY(copy(ownSlot() + to * bytes, source + to * part + at, bytes, stream));
            return Status::ok();
          }));
          return take([&] {
            return group->reductions().launch(type, operation, target + at,
                                              group->slotOf(0) + rank * bytes, kSlotBytes,
                                              group->size(), bytes / bytesOf(type), stream);
          });
        },
        group->size());
  }

  /// A piece of a message, of which there are as many as `pieces`.
  static uint64_t pieces(uint64_t bytes) { return (bytes + kSlotBytes - 1) / kSlotBytes; }
  Status send(uint64_t piece, CUdeviceptr source, uint64_t bytes, size_t to,
              CUstream stream) const {
    size_t word = group->wordOf(rank, to, true);
    uint64_t at = piece * kSlotBytes;
    DTC_CUDA_TRY(SharedGroup::wait(group, word, SlotState::Empty));
    DTC_CUDA_TRY(
        copy(group->slotOf(rank, to), source + at, std::min(kSlotBytes, bytes - at), stream));
    return group->write(word, SlotState::Full);
  }
  /// Waits until the other has received all that was sent.
  Status awaitReceiver(size_t to) const {
    return SharedGroup::wait(group, group->wordOf(rank, to, true), SlotState::Empty);
  }
  Status receive(uint64_t piece, CUdeviceptr target, uint64_t bytes, size_t from,
                 CUstream stream) const {
    size_t word = group->wordOf(from, rank, true);
    uint64_t at = piece * kSlotBytes;
    DTC_CUDA_TRY(SharedGroup::wait(group, word, SlotState::Full));
    DTC_CUDA_TRY(
        copy(target + at, group->slotOf(from, rank), std::min(kSlotBytes, bytes - at), stream));
    return group->write(word, SlotState::Empty);
  }

private:
  CUdeviceptr ownSlot() const { return group->slotOf(rank); }

  /// Calls step(offset, bytes) for pieces of whole elements, `perSlot` of which fit into a slot.
  template <typename Step>
  static Status inPieces(uint64_t count, uint64_t elementBytes, Step &&step, uint64_t perSlot = 1) {
    if (elementBytes == 0)
      return refused("elements of an unknown type");
    uint64_t most = kSlotBytes / perSlot / elementBytes;
    for (uint64_t first = 0; first < count; first += most)
      DTC_CUDA_TRY(step(first * elementBytes, std::min(most, count - first) * elementBytes));
    return Status::ok();
  }

  /// Fills this rank's slot once all others have read what was there.
  template <typename Fill> Status give(Fill &&fill) const {
    DTC_CUDA_TRY(forOthers([&](size_t to) {
      return SharedGroup::wait(group, group->wordOf(rank, to, false), SlotState::Empty);
    }));
    DTC_CUDA_TRY(fill());
    return forOthers(
        [&](size_t to) { return group->write(group->wordOf(rank, to, false), SlotState::Full); });
  }

  /// Reads all slots once they are full.
  template <typename Read> Status take(Read &&read) const {
    DTC_CUDA_TRY(forOthers([&](size_t from) {
      return SharedGroup::wait(group, group->wordOf(from, rank, false), SlotState::Full);
    }));
    DTC_CUDA_TRY(read());
    return forOthers([&](size_t from) {
      return group->write(group->wordOf(from, rank, false), SlotState::Empty);
    });
  }

  template <typename Step> Status forOthers(Step &&step) const {
    for (size_t other = 0; other < group->size(); ++other)
      if (other != rank)
        DTC_CUDA_TRY(step(other));
    return Status::ok();
  }

  static Status copy(CUdeviceptr target, CUdeviceptr source, uint64_t bytes, CUstream stream) {
    return DTC_CUDA_CALL(*theDriver, cuMemcpyDtoDAsync_v2, target, source, bytes, stream);
  }

  std::shared_ptr<SharedGroup> group;
  size_t rank;
};

/// A message of a batch, which is carried out when the batch ends.
struct Message {
  SharedRank *rank;
  bool receives;
  CUdeviceptr buffer;
  uint64_t bytes;
  size_t peer;
  CUstream stream;
};
thread_local std::vector<Message> batch;

/// Piece by piece, sends first: none waits for what comes later. As with NCCL, a send is over once
/// it was received.
Status carryOut(const std::vector<Message> &messages) {
  uint64_t most = 0;
  for (const Message &message : messages)
    most = std::max(most, SharedRank::pieces(message.bytes));
  for (uint64_t piece = 0; piece < most; ++piece)
    for (bool receives : {false, true})
      for (const Message &message : messages)
        if (message.receives == receives && piece < SharedRank::pieces(message.bytes)) {
          auto step = receives ? &SharedRank::receive : &SharedRank::send;
          DTC_CUDA_TRY((message.rank->*step)(piece, message.buffer, message.bytes, message.peer,
                                             message.stream));
        }
  for (const Message &message : messages)
    if (!message.receives)
      DTC_CUDA_TRY(message.rank->awaitReceiver(message.peer));
  return Status::ok();
}

CUdeviceptr addressOf(const void *address) { return reinterpret_cast<CUdeviceptr>(address); }

//===----------------------------------------------------------------------===//
// NCCL's functions
//===----------------------------------------------------------------------===//

ncclResult_t getUniqueId(ncclUniqueId *id) {
  uint64_t number = SharedGroups::get().newId();
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t initRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *) {
  uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  auto group = SharedGroups::get().join(number, static_cast<size_t>(ranks));
  if (!group)
    return resultOf(group.status());
  *comm = (new SharedRank(*group, static_cast<size_t>(rank)))->handle();
  return ncclSuccess;
}

ncclResult_t getAsyncError(ncclComm_t, ncclResult_t *error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t comm) {
  delete &SharedRank::of(comm);
  return ncclSuccess;
}

ncclResult_t abort(ncclComm_t comm) {
  SharedRank::of(comm).abort();
  return destroy(comm);
}

ncclResult_t groupStart() { return ncclSuccess; }

ncclResult_t groupEnd() { return resultOf(carryOut(std::exchange(batch, {}))); }

ncclResult_t allReduce(const void *source, void *target, size_t count, ncclDataType_t type,
                       ncclRedOp_t operation, ncclComm_t comm, CUstream stream) {
  return resultOf(SharedRank::of(comm).allReduce(addressOf(source), addressOf(target), count, type,
                                                 operation, stream));
}

ncclResult_t allGather(const void *source, void *target, size_t count, ncclDataType_t type,
                       ncclComm_t comm, CUstream stream) {
  return resultOf(SharedRank::of(comm).allGather(addressOf(source), addressOf(target),
                                                 count * bytesOf(type), stream));
}

ncclResult_t reduceScatter(const void *source, void *target, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, CUstream stream) {
  return resultOf(SharedRank::of(comm).reduceScatter(addressOf(source), addressOf(target), count,
                                                     type, operation, stream));
}

ncclResult_t send(const void *source, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  CUstream stream) {
  batch.push_back({&SharedRank::of(comm), false, addressOf(source), count * bytesOf(type),
                   static_cast<size_t>(peer), stream});
  return ncclSuccess;
}

ncclResult_t receive(void *target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     CUstream stream) {
  batch.push_back({&SharedRank::of(comm), true, addressOf(target), count * bytesOf(type),
                   static_cast<size_t>(peer), stream});
  return ncclSuccess;
}

const char *errorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "a call of the driver failed";
}

const char *lastErrorText(ncclComm_t) { return lastError.c_str(); }

} // namespace

Nccl sharedGpuCalls(const Driver &driver) {
  theDriver = &driver;
  Nccl calls;
  calls.ncclGetErrorString = errorString;
  calls.ncclGetLastError = lastErrorText;
  calls.ncclGetUniqueId = getUniqueId;
  calls.ncclCommInitRankConfig = initRank;
  calls.ncclCommGetAsyncError = getAsyncError;
  calls.ncclCommAbort = abort;
  calls.ncclCommDestroy = destroy;
  calls.ncclGroupStart = groupStart;
  calls.ncclGroupEnd = groupEnd;
  calls.ncclAllReduce = allReduce;
  calls.ncclAllGather = allGather;
  calls.ncclReduceScatter = reduceScatter;
  calls.ncclSend = send;
  calls.ncclRecv = receive;
  return calls;
}

} // namespace dtc::rt::cuda
