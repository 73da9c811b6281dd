// The entry points of the emulated NCCL. Ranks are threads of one process, or processes.
#include "Emulator/Device/Settings.h"
#include "Emulator/Driver/Context.h"
#include "Emulator/NCCL/Clique.h"

#include <cstring>
#include <thread>

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/NcclFunctions.def"
} // namespace dtc::cuda

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

struct Communicator {
  static constexpr const char *kWhat = "communicator";

  std::shared_ptr<Clique> clique;
  unsigned rank;
  Device *device;
  bool isBlocking;
  uint64_t splits = 0; // how often this rank has split it
  /// A half is there from the start, the other one since the first call, when ranks connect.
  std::shared_ptr<TakenMemory> buffers = nullptr;
  /// Each operation has a copy, which lies on a stream or in a graph.
  std::shared_ptr<int> uses = std::make_shared<int>();

  void join() {
    clique->join(rank, device);
    buffers = std::make_shared<TakenMemory>(device->memory());
    buffers->growTo(settings().communicatorBytes / 2);
  }
  void connect() const { buffers->growTo(settings().communicatorBytes); }

  /// A split that this rank has asked for, and not all others.
  struct Split {
    int color, key;
    bool isBlocking;
    ncclComm_t *result;
  };
  std::optional<Split> split = std::nullopt;
};

/// What a thread has put into the group that it has open.
struct OpenGroup {
  int depth = 0;
  struct Entry {
    Communicator *communicator;
    Stream *stream;
    std::vector<Message> messages;
  };
  std::vector<Entry> entries;
  std::vector<Communicator *> initialized;
};
thread_local OpenGroup group;
thread_local std::string lastError;

template <typename Body> ncclResult_t enterLibrary(const char *function, Body &&body) {
  try {
    return body();
  } catch (const Fault &fault) {
    report(fault, function);
    lastError = fault.what();
    return fault.code <= static_cast<int>(ncclInProgress) ? static_cast<ncclResult_t>(fault.code)
                                                          : ncclUnhandledCudaError;
  }
}

bool isBlocking(const ncclConfig_t *config) {
  if (!config)
    return true;
  require(config->magic == 0xcafebeef && config->size >= sizeof(ncclConfig_t), ncclInvalidArgument,
          "the configuration wasn't initialized");
  return config->blocking != 0;
}

Communicator &usable(ncclComm_t handle) {
  Communicator &communicator = handles<Communicator>().find(handle);
  require(communicator.clique->isComplete(), ncclInvalidUsage,
          "the communicator is used before all of its ranks have joined");
  require(!communicator.split, ncclInvalidUsage,
          "the communicator is used while it is being split");
  std::string failure = communicator.clique->failure();
  require(failure.empty(), ncclRemoteError, failure);
  return communicator;
}

ncclResult_t finishJoining(Communicator &communicator) {
  if (communicator.isBlocking && group.depth > 0) {
    group.initialized.push_back(&communicator);
    return ncclSuccess;
  }
  if (communicator.isBlocking)
    communicator.clique->awaitComplete(communicator.rank);
  return communicator.clique->isComplete() ? ncclSuccess : ncclInProgress;
}

void requireOverlapFree(const Contribution &part, unsigned rank, size_t ranks) {
  Range source = part.sourceRange(ranks), target = part.targetRange(ranks);
  uint64_t shift = rank * part.count * bytesOf(part.type);
  bool isInPlace = part.kind == Collective::AllReduce   ? part.source == part.target
                   : part.kind == Collective::AllGather ? part.source == part.target + shift
                                                        : part.target == part.source + shift;
  require(isInPlace || source.end <= target.begin || target.end <= source.begin,
          ncclInvalidArgument,
          "source and target of " + part.text() + " overlap, and it isn't in place");
}

/// Carried out by the rank's stream. What was aborted has touched nothing.
Accesses meet(const Communicator &communicator, Contribution part) {
  size_t ranks = communicator.clique->size();
  Range source = part.sourceRange(ranks), target = part.targetRange(ranks);
  DeviceMemory &memory = communicator.device->memory();
  part.sourceBytes = memory.translate(source.begin, source.end - source.begin);
  part.targetBytes = memory.translate(target.begin, target.end - target.begin);
  if (!communicator.clique->meet(communicator.rank, part))
    return {};
  return {{source}, {target}};
}

ncclResult_t collective(Collective kind, const void *source, void *target, size_t count,
                        ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t handle,
                        CUstream streamHandle) {
  Communicator &communicator = usable(handle);
  Stream &stream = streamOf(streamHandle);
  require(&stream.device() == communicator.device, ncclInvalidUsage,
          "the stream is of another device than the communicator");
  Contribution part{
      kind,     reinterpret_cast<uint64_t>(source), reinterpret_cast<uint64_t>(target), count, type,
      reduction};
  bool isKnown = reduction == ncclSum || reduction == ncclMax || reduction == ncclMin;
  require(isKnown, ncclInvalidArgument, "the emulator lacks a reduction");
  bytesOf(type);
  requireOverlapFree(part, communicator.rank, communicator.clique->size());
  communicator.connect();
  if (count > 0)
    stream.submit({part.text(), [part, own = communicator] { return meet(own, part); }});
  return ncclSuccess;
}

Accesses exchange(const Communicator &communicator, std::vector<Message> messages) {
  for (Message &message : messages)
    message.data = communicator.device->memory().translate(message.address, message.bytes());
  if (!communicator.clique->exchange(communicator.rank, messages))
    return {};
  return accessesOf(messages);
}

void submitMessages() {
  for (OpenGroup::Entry &entry : group.entries) {
    std::string name = std::to_string(entry.messages.size()) + " sends and receives";
    entry.stream->submit({name, [messages = std::move(entry.messages), own = *entry.communicator] {
                            return exchange(own, messages);
                          }});
  }
  group.entries.clear();
}

ncclResult_t message(bool isSend, const void *address, size_t count, ncclDataType_t type, int peer,
                     ncclComm_t handle, CUstream streamHandle) {
  Communicator &communicator = usable(handle);
  Stream &stream = streamOf(streamHandle);
  require(peer >= 0 && static_cast<size_t>(peer) < communicator.clique->size(), ncclInvalidArgument,
          "there is no rank " + std::to_string(peer));
  bytesOf(type);
  communicator.connect();
  Message made{isSend, static_cast<unsigned>(peer), reinterpret_cast<uint64_t>(address), count,
               type};
  OpenGroup::Entry *found = nullptr;
  for (OpenGroup::Entry &entry : group.entries)
    if (entry.communicator == &communicator && entry.stream == &stream)
      found = &entry;
  if (!found)
    found = &group.entries.emplace_back(OpenGroup::Entry{&communicator, &stream, {}});
  found->messages.push_back(made);
  if (group.depth == 0)
    submitMessages();
  return ncclSuccess;
}

/// As NCCL does before a communicator goes: its work must have ended, and every graph must be
/// destroyed that has captured any of it.
void awaitUnused(const Communicator &communicator) {
  auto deadline = std::chrono::steady_clock::now() + settings().collectiveTimeout.load();
  while (communicator.uses.use_count() > 1) {
    require(std::chrono::steady_clock::now() < deadline, ncclInternalError,
            "rank " + std::to_string(communicator.rank) +
                " would wait forever for a graph that has captured the communicator");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Goes on with a split. False where other ranks haven't asked yet, or the new communicator isn't
/// complete.
bool finishSplit(Communicator &parent) {
  if (!parent.split)
    return true;
  const Communicator::Split &asked = *parent.split;
  auto members = parent.clique->split(parent.rank, parent.splits, asked.color, asked.key);
  if (!members)
    return false;
  if (asked.color >= 0 && !*asked.result) {
    auto made = std::make_unique<Communicator>();
    made->clique = cliqueNamed(parent.clique->title() + "/" + std::to_string(parent.splits) + "." +
                                   std::to_string(asked.color),
                               members->size());
    made->rank = static_cast<unsigned>(std::find(members->begin(), members->end(), parent.rank) -
                                       members->begin());
    made->device = parent.device;
    made->isBlocking = asked.isBlocking;
    made->join();
    *asked.result = handles<Communicator>().add<ncclComm_t>(std::move(made));
  }
  if (asked.color >= 0 && !handles<Communicator>().find(*asked.result).clique->isComplete())
    return false;
  parent.split.reset();
  return true;
}

ncclResult_t split(Communicator &parent, int color, int key, ncclComm_t *result,
                   const ncclConfig_t *config) {
  ++parent.splits;
  parent.split = {color, key, config ? isBlocking(config) : parent.isBlocking, result};
  *result = nullptr;
  auto deadline = std::chrono::steady_clock::now() + settings().collectiveTimeout.load();
  while (!finishSplit(parent)) {
    if (!parent.isBlocking)
      return ncclInProgress;
    require(std::chrono::steady_clock::now() < deadline, ncclRemoteError,
            "rank " + std::to_string(parent.rank) + " waited in ncclCommSplit");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ncclSuccess;
}

} // namespace
} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

ncclResult_t ncclGetVersion(int *version) {
  *version = settings().ncclVersion;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  constexpr const char *texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return result < std::size(texts) ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm) {
  if (comm)
    if (std::string failure = handles<Communicator>().find(comm).clique->failure();
        !failure.empty())
      lastError = failure;
  return lastError.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  return enterLibrary(__func__, [&] {
    std::string name = newCliqueName();
    std::memset(id, 0, sizeof(*id));
    std::memcpy(id->internal, name.data(), std::min(name.size(), sizeof(id->internal) - 1));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  return enterLibrary(__func__, [&] {
    require(ranks > 0 && rank >= 0 && rank < ranks, ncclInvalidArgument,
            "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " can't exist");
    auto made = std::make_unique<Communicator>();
    made->isBlocking = isBlocking(config);
    made->clique = cliqueNamed(std::string(id.internal, strnlen(id.internal, sizeof(id.internal))),
                               static_cast<size_t>(ranks));
    made->rank = static_cast<unsigned>(rank);
    made->device = &currentDevice();
    made->join();
    Communicator &joined = *made;
    *comm = handles<Communicator>().add<ncclComm_t>(std::move(made));
    return finishJoining(joined);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newComm,
                           ncclConfig_t *config) {
  return enterLibrary(__func__, [&] { return split(usable(comm), color, key, newComm, config); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  return enterLibrary(__func__, [&] {
    Communicator &asked = handles<Communicator>().find(comm);
    *error = !asked.clique->failure().empty()                   ? ncclRemoteError
             : asked.clique->isComplete() && finishSplit(asked) ? ncclSuccess
                                                                : ncclInProgress;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return enterLibrary(__func__, [&] {
    hangIfAsked("ncclCommAbort");
    std::unique_ptr<Communicator> taken = handles<Communicator>().take(comm);
    taken->clique->abort(taken->rank);
    awaitUnused(*taken);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return enterLibrary(__func__, [&] {
    awaitUnused(*handles<Communicator>().take(comm));
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return enterLibrary(__func__, [&] {
    require(group.depth > 0, ncclInvalidUsage, "no group is open");
    if (--group.depth > 0)
      return ncclSuccess;
    submitMessages();
    std::vector<Communicator *> initialized = std::move(group.initialized);
    group.initialized.clear();
    for (Communicator *communicator : initialized)
      communicator->clique->awaitComplete(communicator->rank);
    return ncclSuccess;
  });
}

ncclResult_t ncclAllReduce(const void *source, void *target, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, CUstream stream) {
  return enterLibrary(__func__, [&] {
    return collective(Collective::AllReduce, source, target, count, type, op, comm, stream);
  });
}

ncclResult_t ncclAllGather(const void *source, void *target, size_t count, ncclDataType_t type,
                           ncclComm_t comm, CUstream stream) {
  return enterLibrary(__func__, [&] {
    return collective(Collective::AllGather, source, target, count, type, ncclSum, comm, stream);
  });
}

ncclResult_t ncclReduceScatter(const void *source, void *target, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, CUstream stream) {
  return enterLibrary(__func__, [&] {
    return collective(Collective::ReduceScatter, source, target, count, type, op, comm, stream);
  });
}

ncclResult_t ncclSend(const void *source, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, CUstream stream) {
  return enterLibrary(__func__,
                      [&] { return message(true, source, count, type, peer, comm, stream); });
}

ncclResult_t ncclRecv(void *target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
  return enterLibrary(__func__,
                      [&] { return message(false, target, count, type, peer, comm, stream); });
}

} // namespace dtc::cuda
