#include "ThreadMailbox.h"
#include "ThreadGroup.h"

#include <cstring>

namespace dtc::rt {
namespace {

template <typename T> std::string sizesText(std::span<const MessageBlock<T>> blocks) {
  std::string text;
  for (const auto &block : blocks)
    text += (text.empty() ? "" : " + ") + std::to_string(block.bytes);
  return (text.empty() ? "no" : text) + " bytes";
}

std::string atPurpose(const std::string &purpose) {
  return purpose.empty() ? "" : " at " + purpose;
}

} // namespace

Status ThreadMailbox::await(std::unique_lock<std::mutex> &lock, State wanted, int rank,
                            const char *what, const char *purpose) {
  bool &waits = rank == to ? receiverWaits : senderWaits;
  waits = true;
  bool inTime = world.await(changed, lock, [&] { return state == wanted || world.isAborted(); });
  if (!inTime) {
    lock.unlock();
    return world.timedOut(rank, what, purpose, {rank == to ? from : to});
  }
  waits = false;
  return world.isAborted() ? world.check() : Status::ok();
}

std::optional<int> ThreadMailbox::waitedForBy(int rank) {
  std::lock_guard lock(mutex);
  if (rank == to && receiverWaits)
    return from;
  return rank == from && senderWaits ? std::optional(to) : std::nullopt;
}

Status ThreadMailbox::send(std::span<const SendBlock> blocks, const char *purpose) {
  std::unique_lock lock(mutex);
  if (Status status = await(lock, State::Empty, from, "send", purpose); !status.isOk())
    return status;
  sent.assign(blocks.begin(), blocks.end());
  sentPurpose = purpose;
  state = State::Sent;
  changed.notify_all();
  if (Status status = await(lock, State::Taken, from, "send", purpose); !status.isOk())
    return status;
  state = State::Empty;
  changed.notify_all();
  return outcome;
}

Status ThreadMailbox::receive(std::span<const ReceiveBlock> blocks, const char *purpose) {
  std::unique_lock lock(mutex);
  if (Status status = await(lock, State::Sent, to, "receive", purpose); !status.isOk())
    return status;
  state = State::InCopy;
  Status status = differ(blocks, purpose);
  // A copy: the sender may go on because of an abort. Its memory stays.
  std::vector<SendBlock> sources = sent;
  lock.unlock();
  for (size_t i = 0; status.isOk() && i < blocks.size(); ++i)
    if (blocks[i].bytes > 0)
      std::memcpy(blocks[i].data, sources[i].data, blocks[i].bytes);
  lock.lock();
  outcome = status;
  state = State::Taken;
  changed.notify_all();
  return status;
}

Status ThreadMailbox::differ(std::span<const ReceiveBlock> blocks, const char *purpose) const {
  bool same = blocks.size() == sent.size();
  for (size_t i = 0; same && i < blocks.size(); ++i)
    same = blocks[i].bytes == sent[i].bytes;
  if (same)
    return Status::ok();
  return failed("rank " + std::to_string(from) + " sends " +
                sizesText(std::span<const SendBlock>(sent)) + atPurpose(sentPurpose) +
                ", but what is received" + atPurpose(purpose) + " by rank " + std::to_string(to) +
                " has " + sizesText(blocks));
}

void ThreadMailbox::wake() {
  {
    std::lock_guard lock(mutex);
  } // nobody is between its test and its wait
  changed.notify_all();
}

} // namespace dtc::rt
