#include "Emulator/NCCL/Clique.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Settings.h"

#include <algorithm>
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

void LocalClique::fail(const std::string &message) {
  if (failed.empty())
    failed = message;
  changed.notify_all();
  throw Fault(CUDA_ERROR_LAUNCH_FAILED, "NCCL, communicator " + title() + ": " + message);
}

Accesses accessesOf(const std::vector<Message> &messages) {
  Accesses accesses;
  for (const Message &message : messages)
    (message.isSend ? accesses.reads : accesses.writes)
        .push_back({message.address, message.address + message.bytes()});
  sortAndJoin(accesses.reads);
  sortAndJoin(accesses.writes);
  return accesses;
}

void LocalClique::join(unsigned rank, Device *device) {
  Lock lock(mutex);
  if (rank >= size() || members[rank])
    throw Fault(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                         std::to_string(size()) + " exists already or can't exist");
  members[rank] = device;
  changed.notify_all();
}

bool LocalClique::hasAll() const {
  return std::all_of(members.begin(), members.end(),
                     [](const auto &member) { return member.has_value(); });
}

bool LocalClique::isComplete() {
  Lock lock(mutex);
  return hasAll();
}

template <typename Condition>
void LocalClique::await(Lock &lock, unsigned rank, const std::string &what, Condition &&condition) {
  const std::chrono::seconds timeout = settings().collectiveTimeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (aborted[rank])
      throw Aborted();
    if (!failed.empty())
      throw Fault(CUDA_ERROR_LAUNCH_FAILED, "NCCL, communicator " + title() + ": " + failed, true);
    for (unsigned other = 0; other < size(); ++other)
      if (Device *device = members[other].value_or(nullptr); device && device->hasFailed())
        fail("rank " + std::to_string(rank) + " waits in " + what + ", and the device of rank " +
             std::to_string(other) + " has failed");
    if (std::chrono::steady_clock::now() > deadline)
      fail("rank " + std::to_string(rank) + " waited " + std::to_string(timeout.count()) +
           " s in " + missing(what));
    changed.wait_for(lock, std::chrono::milliseconds(50));
  }
}

LocalClique::Lock LocalClique::begin(unsigned rank) {
  Lock lock(mutex);
  if (std::ranges::count(aborted, true) > 0)
    await(lock, rank, "what another rank has aborted", [] { return false; });
  return lock;
}

std::string LocalClique::missing(const std::string &what) const {
  std::string text = what + "; collectives begun by rank:";
  for (unsigned rank = 0; rank < size(); ++rank)
    text += (members[rank] ? " " + std::to_string(rounds[rank]) : std::string(" (not joined)"));
  return text;
}

void LocalClique::awaitComplete(unsigned rank) {
  Lock lock(mutex);
  await(lock, rank, "the initialization of a communicator of " + std::to_string(size()) + " ranks",
        [&] { return hasAll(); });
}

void LocalClique::requireAgreement(const Round &round, unsigned rank) {
  const Contribution &mine = round.contributions.at(rank);
  for (const auto &[other, theirs] : round.contributions)
    if (!theirs.agrees(mine))
      fail("ranks disagree about collective " + std::to_string(rounds[rank]) + ": rank " +
           std::to_string(rank) + " has " + mine.text() + ", rank " + std::to_string(other) +
           " has " + theirs.text());
}

void LocalClique::takePart(unsigned rank, const Contribution &contribution) {
  Lock lock = begin(rank);
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
}

void LocalClique::carryOut(const Round &round) {
  const Contribution &any = round.contributions.begin()->second;
  std::vector<const std::byte *> inputs;
  uint64_t bytes = any.count * bytesOf(any.type);
  for (const auto &[rank, part] : round.contributions)
    inputs.push_back(part.sourceBytes);
  std::vector<std::byte> result;
  if (any.kind == Collective::AllGather) {
    for (const std::byte *input : inputs)
      result.insert(result.end(), input, input + bytes);
  } else {
    size_t count = any.kind == Collective::ReduceScatter ? any.count * size() : any.count;
    result = reduce({inputs, count, any.type, any.reduction});
  }
  for (const auto &[rank, part] : round.contributions) {
    Range target = part.targetRange(size());
    uint64_t offset = any.kind == Collective::ReduceScatter ? rank * bytes : 0;
    std::memcpy(part.targetBytes, result.data() + offset, target.end - target.begin);
  }
}

std::shared_ptr<bool> LocalClique::post(unsigned rank, const Message &message) {
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
  std::memcpy(receive.data, send.data, send.bytes());
  *other.isDone = true;
  changed.notify_all();
  return other.isDone;
}

void LocalClique::takePart(unsigned rank, const std::vector<Message> &messages) {
  Lock lock = begin(rank);
  std::vector<std::shared_ptr<bool>> done;
  for (const Message &message : messages)
    done.push_back(post(rank, message));
  for (size_t i = 0; i < messages.size(); ++i)
    await(lock, rank,
          std::string(messages[i].isSend ? "a send of " : "a receive of ") +
              std::to_string(messages[i].count) + " " + nameOf(messages[i].type) +
              (messages[i].isSend ? " to rank " : " from rank ") + std::to_string(messages[i].peer),
          [&] { return *done[i]; });
}

std::optional<std::vector<unsigned>> LocalClique::split(unsigned rank, uint64_t number, int color,
                                                        int key) {
  Lock lock(mutex);
  auto &requests = splits[number];
  auto [mine, isNew] = requests.emplace(rank, std::pair(color, key));
  if (!isNew && mine->second != std::pair(color, key))
    throw Fault(ncclInvalidUsage, "rank " + std::to_string(rank) +
                                      " changes its mind about split " + std::to_string(number));
  if (requests.size() < size())
    return std::nullopt;
  std::vector<std::pair<int, unsigned>> order;
  for (const auto &[other, request] : requests)
    if (request.first == color)
      order.emplace_back(request.second, other);
  std::sort(order.begin(), order.end());
  std::vector<unsigned> result;
  for (const auto &[sortedBy, other] : order)
    result.push_back(other);
  return result;
}

void LocalClique::abort(unsigned rank) {
  Lock lock(mutex);
  aborted[rank] = true;
  changed.notify_all();
}

std::string LocalClique::failure() {
  Lock lock(mutex);
  return failed;
}

} // namespace dtc::emulator
