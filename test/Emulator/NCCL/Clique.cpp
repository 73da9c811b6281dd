#include "Emulator/NCCL/Clique.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Settings.h"

#include <cstring>

namespace dtc::emulator {

using namespace dtc::cuda;

std::string Contribution::text() const {
  constexpr const char *names[] = {"all_reduce", "all_gather", "reduce_scatter"};
  std::string text = std::string(names[static_cast<int>(kind)]) + " of " + std::to_string(count) +
                     " " + nameOf(type);
  return kind == Collective::AllGather ? text : text + " (" + nameOf(reduction) + ")";
}

Range Contribution::sourceRange(size_t ranks) const {
  uint64_t elements = kind == Collective::ReduceScatter ? count * ranks : count;
  return {source, source + elements * bytesOf(type)};
}

Range Contribution::targetRange(size_t ranks) const {
  uint64_t elements = kind == Collective::AllGather ? count * ranks : count;
  return {target, target + elements * bytesOf(type)};
}

void Clique::fail(const std::string &message) {
  if (failed.empty())
    failed = message;
  changed.notify_all();
  throw Fault(CUDA_ERROR_LAUNCH_FAILED, "NCCL, communicator " + name + ": " + message);
}

void Clique::join(unsigned rank, Device &device) {
  Lock lock(mutex);
  if (rank >= size() || devices[rank])
    throw Fault(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                         std::to_string(size()) + " exists already or can't exist");
  devices[rank] = &device;
  changed.notify_all();
}

bool Clique::isComplete() {
  Lock lock(mutex);
  return std::find(devices.begin(), devices.end(), nullptr) == devices.end();
}

template <typename Condition>
void Clique::await(Lock &lock, unsigned rank, const std::string &what, Condition &&condition) {
  auto deadline = std::chrono::steady_clock::now() + settings().collectiveTimeout;
  while (!condition()) {
    if (isAborted)
      throw Aborted();
    if (!failed.empty())
      throw Fault(CUDA_ERROR_LAUNCH_FAILED, "NCCL, communicator " + name + ": " + failed, true);
    for (unsigned other = 0; other < size(); ++other)
      if (devices[other] && devices[other]->hasFailed())
        fail("rank " + std::to_string(rank) + " waits in " + what + ", and the device of rank " +
             std::to_string(other) + " has failed");
    if (std::chrono::steady_clock::now() > deadline)
      fail("rank " + std::to_string(rank) + " waited " +
           std::to_string(settings().collectiveTimeout.count()) + " s in " + missing(what));
    changed.wait_for(lock, std::chrono::milliseconds(50));
  }
}

std::string Clique::missing(const std::string &what) const {
  std::string text = what + "; collectives begun by rank:";
  for (unsigned rank = 0; rank < size(); ++rank)
    text += (devices[rank] ? " " + std::to_string(rounds[rank]) : std::string(" (not joined)"));
  return text;
}

void Clique::awaitComplete(unsigned rank) {
  Lock lock(mutex);
  await(lock, rank, "the initialization of a communicator of " + std::to_string(size()) + " ranks",
        [&] { return std::find(devices.begin(), devices.end(), nullptr) == devices.end(); });
}

void Clique::requireAgreement(const Round &round, unsigned rank) {
  const Contribution &mine = round.contributions.at(rank);
  for (const auto &[other, theirs] : round.contributions)
    if (!theirs.agrees(mine))
      fail("ranks disagree about collective " + std::to_string(rounds[rank]) + ": rank " +
           std::to_string(rank) + " has " + mine.text() + ", rank " + std::to_string(other) +
           " has " + theirs.text());
}

Accesses Clique::takePart(unsigned rank, const Contribution &contribution) {
  Lock lock(mutex);
  uint64_t number = ++rounds[rank];
  Round &round = open.try_emplace(number, Round{{}, false, size()}).first->second;
  round.contributions[rank] = contribution;
  requireAgreement(round, rank);
  if (round.contributions.size() == size()) {
    carryOut(round);
    round.isDone = true;
    changed.notify_all();
  } else {
    await(lock, rank, "collective " + std::to_string(number) + ", " + contribution.text(),
          [&] { return open[number].isDone; });
  }
  if (--open[number].left == 0)
    open.erase(number);
  return {{contribution.sourceRange(size())}, {contribution.targetRange(size())}};
}

void Clique::carryOut(const Round &round) {
  const Contribution &any = round.contributions.begin()->second;
  std::vector<const std::byte *> inputs;
  uint64_t bytes = any.count * bytesOf(any.type);
  for (const auto &[rank, part] : round.contributions) {
    Range source = part.sourceRange(size());
    inputs.push_back(part.device->memory().translate(source.begin, source.end - source.begin));
  }
  std::vector<std::byte> result;
  if (any.kind == Collective::AllGather) {
    for (const std::byte *input : inputs)
      result.insert(result.end(), input, input + bytes);
  } else {
    size_t count = any.kind == Collective::ReduceScatter ? any.count * size() : any.count;
    result = reduce(inputs, count, any.type, any.reduction);
  }
  for (const auto &[rank, part] : round.contributions) {
    Range target = part.targetRange(size());
    std::byte *place = part.device->memory().translate(target.begin, target.end - target.begin);
    uint64_t offset = any.kind == Collective::ReduceScatter ? rank * bytes : 0;
    std::memcpy(place, result.data() + offset, target.end - target.begin);
  }
}

std::shared_ptr<bool> Clique::post(unsigned rank, const Message &message) {
  auto channel = message.isSend ? std::pair(rank, message.peer) : std::pair(message.peer, rank);
  auto &waiting = message.isSend ? receives[channel] : sends[channel];
  if (waiting.empty()) {
    auto isDone = std::make_shared<bool>(false);
    (message.isSend ? sends : receives)[channel].push_back({message, isDone});
    return isDone;
  }
  Pending other = waiting.front();
  waiting.pop_front();
  const Message &send = message.isSend ? message : other.message;
  const Message &receive = message.isSend ? other.message : message;
  if (send.count != receive.count || send.type != receive.type)
    fail("rank " + std::to_string(channel.first) + " sends " + std::to_string(send.count) + " " +
         nameOf(send.type) + ", and rank " + std::to_string(channel.second) + " receives " +
         std::to_string(receive.count) + " " + nameOf(receive.type));
  std::memcpy(receive.device->memory().translate(receive.address, receive.bytes()),
              send.device->memory().translate(send.address, send.bytes()), send.bytes());
  *other.isDone = true;
  changed.notify_all();
  return other.isDone;
}

Accesses Clique::takePart(unsigned rank, const std::vector<Message> &messages) {
  Lock lock(mutex);
  std::vector<std::shared_ptr<bool>> done;
  Accesses accesses;
  for (const Message &message : messages) {
    done.push_back(post(rank, message));
    (message.isSend ? accesses.reads : accesses.writes)
        .push_back({message.address, message.address + message.bytes()});
  }
  for (size_t i = 0; i < messages.size(); ++i)
    await(lock, rank,
          std::string(messages[i].isSend ? "a send of " : "a receive of ") +
              std::to_string(messages[i].count) + " " + nameOf(messages[i].type) +
              (messages[i].isSend ? " to rank " : " from rank ") + std::to_string(messages[i].peer),
          [&] { return *done[i]; });
  auto byBegin = [](const Range &a, const Range &b) { return a.begin < b.begin; };
  std::sort(accesses.reads.begin(), accesses.reads.end(), byBegin);
  std::sort(accesses.writes.begin(), accesses.writes.end(), byBegin);
  return accesses;
}

void Clique::abort(const std::string &why) {
  Lock lock(mutex);
  if (failed.empty())
    failed = why;
  isAborted = true;
  changed.notify_all();
}

std::string Clique::failure() {
  Lock lock(mutex);
  return failed;
}

} // namespace dtc::emulator
