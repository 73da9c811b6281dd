// The entry points of the emulated NCCL. Ranks are threads of one process, or processes.
#include "Emulator/Device/Settings.h"
#include "Emulator/Driver/Context.h"
#include "Emulator/NCCL/Clique.h"

#include <cstring>
#include <set>
#include <utility>

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
  /// Whom its calls connect it with: a rank, or all of them (the number of ranks). A call is in
  /// progress until it is asked about. Only where it doesn't block.
  std::set<unsigned> connecting = {}, connected = {};
  bool isInProgress = false;
  /// A half is there from the start, the other one since the first call, when ranks connect.
  std::shared_ptr<TakenMemory> buffers = nullptr;
  /// Each operation has a copy, which lies on a stream or in a graph.
  std::shared_ptr<int> uses = std::make_shared<int>();

  Answer state() const { return clique->ask({Request::State}); }
  void begin() { isInProgress = !isBlocking; }
  bool finish() {
    for (; !connecting.empty(); connecting.erase(connecting.begin())) {
      const unsigned with = *connecting.begin();
      if (!connected.contains(with) &&
          !clique->ask({.request = Request::Connect, .rank = rank, .peer = with}).isTrue)
        return false;
      connected.insert(with);
    }
    isInProgress = false;
    return true;
  }

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
    Messages messages;
  };
  std::vector<Entry> entries;
  std::vector<Communicator *> initialized, called;
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

ncclComm_t makeCommunicator(std::shared_ptr<Clique> clique, unsigned rank, Device *device,
                            bool isBlocking) {
  clique->ask({Request::Join, rank, device});
  auto made = std::make_unique<Communicator>(std::move(clique), rank, device, isBlocking);
  made->buffers = std::make_shared<TakenMemory>(device->memory());
  made->buffers->growTo(settings().communicatorBytes / 2);
  return handles<Communicator>().add<ncclComm_t>(std::move(made));
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
  Answer state = communicator.state();
  require(state.isTrue, ncclInvalidUsage,
          "the communicator is used before all of its ranks have joined");
  require(!communicator.split, ncclInvalidUsage,
          "the communicator is used while it is being split");
  require(!communicator.isInProgress, ncclInvalidUsage,
          "the communicator is used while a call is in progress");
  require(state.text.empty(), ncclRemoteError, state.text);
  return communicator;
}

ncclResult_t finishJoining(Communicator &communicator) {
  if (communicator.isBlocking && group.depth > 0) {
    group.initialized.push_back(&communicator);
    return ncclSuccess;
  }
  if (communicator.isBlocking)
    communicator.clique->ask({Request::AwaitComplete, communicator.rank});
  return communicator.state().isTrue ? ncclSuccess : ncclInProgress;
}

/// Ranks connect on the host in their first collective, and in the first message of two. Until all
/// of them call it, none's call is over.
ncclResult_t connect(Communicator &communicator, unsigned with) {
  communicator.buffers->growTo(settings().communicatorBytes);
  if (!communicator.isBlocking)
    communicator.connecting.insert(with);
  if (group.depth > 0)
    group.called.push_back(&communicator);
  else
    communicator.begin();
  return communicator.isInProgress ? ncclInProgress : ncclSuccess;
}

/// The bytes that messages read and write. Below 2.26 calls on several communicators may begin in
/// any order. So a device's calls all write a byte that is in no memory: those that no event orders
/// are an error.
Accesses accessesOf(const Messages &messages) {
  constexpr int kFirstWithOrder = 22600;
  Accesses accesses;
  if (settings().ncclVersion < kFirstWithOrder)
    accesses.writes.push_back({0, 1});
  for (const Message &message : messages)
    (message.isSend ? accesses.reads : accesses.writes).push_back(message.range());
  sortAndJoin(accesses.reads);
  sortAndJoin(accesses.writes);
  return accesses;
}

/// What the rank's stream carries out. What was aborted has touched nothing.
std::function<Accesses()> taskOf(const Communicator &communicator, const Question &question,
                                 Messages messages) {
  return [question, messages = std::move(messages), own = communicator]() mutable -> Accesses {
    for (Message &message : messages)
      message.data = own.device->memory().translate(message.address, message.bytes());
    bool isDone = own.clique->ask(question, messages).isTrue;
    return isDone ? accessesOf(messages) : Accesses{};
  };
}

void requireOverlapFree(const Question &question, const Message &source, const Message &target) {
  uint64_t shift = question.rank * question.count * bytesOf(question.type);
  bool isGather = question.kind == Collective::AllGather;
  bool isScatter = question.kind == Collective::ReduceScatter;
  bool isInPlace =
      source.address + (isScatter ? shift : 0) == target.address + (isGather ? shift : 0);
  Range read = source.range(), written = target.range();
  require(isInPlace || read.end <= written.begin || written.end <= read.begin, ncclInvalidArgument,
          "source and target of ", describe(question), " overlap, and it isn't in place");
}

ncclResult_t collective(Collective kind, const void *source, void *target, size_t count,
                        ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t handle,
                        CUstream streamHandle) {
  Communicator &communicator = usable(handle);
  Stream &stream = streamOf(streamHandle);
  require(&stream.device() == communicator.device, ncclInvalidUsage,
          "the stream is of another device than the communicator");
  bool isKnown = reduction == ncclSum || reduction == ncclMax || reduction == ncclMin;
  require(isKnown, ncclInvalidArgument, "the emulator lacks a reduction");
  Question question{Request::Collect, communicator.rank, nullptr, kind, count, type, reduction};
  size_t all = count * communicator.clique->size;
  Message read{true, 0, reinterpret_cast<uint64_t>(source),
               kind == Collective::ReduceScatter ? all : count, type};
  Message written{false, 0, reinterpret_cast<uint64_t>(target),
                  kind == Collective::AllGather ? all : count, type};
  requireOverlapFree(question, read, written);
  if (count > 0)
    stream.submit({describe(question), taskOf(communicator, question, {read, written})});
  return connect(communicator, static_cast<unsigned>(communicator.clique->size));
}

void submitMessages() {
  for (OpenGroup::Entry &entry : group.entries) {
    Question question{Request::Exchange, entry.communicator->rank};
    entry.stream->submit({concat(entry.messages.size(), " sends and receives"),
                          taskOf(*entry.communicator, question, entry.messages)});
  }
  group.entries.clear();
}

ncclResult_t message(bool isSend, const void *address, size_t count, ncclDataType_t type, int peer,
                     ncclComm_t handle, CUstream streamHandle) {
  Communicator &communicator = usable(handle);
  Stream &stream = streamOf(streamHandle);
  require(peer >= 0 && static_cast<size_t>(peer) < communicator.clique->size, ncclInvalidArgument,
          "there is no rank ", peer);
  bytesOf(type);
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
  return connect(communicator, made.peer);
}

/// As NCCL does before a communicator goes: its work must have ended, and every graph must be
/// destroyed that has captured any of it.
void awaitUnused(const Communicator &communicator) {
  auto deadline = std::chrono::steady_clock::now() + settings().collectiveTimeout.load();
  while (communicator.uses.use_count() > 1) {
    require(std::chrono::steady_clock::now() < deadline, ncclInternalError, "rank ",
            communicator.rank,
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
  Answer part = parent.clique->ask({.request = Request::Split,
                                    .rank = parent.rank,
                                    .number = parent.splits,
                                    .color = asked.color,
                                    .key = asked.key});
  if (!part.isTrue)
    return false;
  if (asked.color >= 0 && !*asked.result) {
    std::string name = concat(parent.clique->title, "/", parent.splits, ".", asked.color);
    *asked.result =
        makeCommunicator(cliqueNamed(name, part.ranks), part.rank, parent.device, asked.isBlocking);
  }
  if (asked.color >= 0 && !handles<Communicator>().find(*asked.result).state().isTrue)
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
    require(std::chrono::steady_clock::now() < deadline, ncclRemoteError, "rank ", parent.rank,
            " waited in ncclCommSplit");
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
    if (Answer state = handles<Communicator>().find(comm).state(); !state.text.empty())
      lastError = state.text;
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
    require(ranks > 0 && rank >= 0 && rank < ranks, ncclInvalidArgument, "rank ", rank, " of ",
            ranks, " can't exist");
    std::string name(id.internal, strnlen(id.internal, sizeof(id.internal)));
    *comm = makeCommunicator(cliqueNamed(name, static_cast<size_t>(ranks)),
                             static_cast<unsigned>(rank), &currentDevice(), isBlocking(config));
    return finishJoining(handles<Communicator>().find(*comm));
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newComm,
                           ncclConfig_t *config) {
  return enterLibrary(__func__, [&] { return split(usable(comm), color, key, newComm, config); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  return enterLibrary(__func__, [&] {
    Communicator &asked = handles<Communicator>().find(comm);
    Answer state = asked.state();
    *error = !state.text.empty()                                    ? ncclRemoteError
             : state.isTrue && asked.finish() && finishSplit(asked) ? ncclSuccess
                                                                    : ncclInProgress;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return enterLibrary(__func__, [&] {
    hangIfAsked("ncclCommAbort");
    std::unique_ptr<Communicator> taken = handles<Communicator>().take(comm);
    taken->clique->ask({Request::Abort, taken->rank});
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
      communicator->clique->ask({Request::AwaitComplete, communicator->rank});
    ncclResult_t result = ncclSuccess;
    for (Communicator *communicator : std::exchange(group.called, {})) {
      communicator->begin();
      if (communicator->isInProgress)
        result = ncclInProgress;
    }
    return result;
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
