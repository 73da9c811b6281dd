#include "dtc-rt/Threads/ThreadCommunicator.h"
#include "ThreadGroup.h"

#include "dtc-rt/Reduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dtc::rt {
namespace {

/// Bytes exchanged at a time where a copy in between is needed.
constexpr uint64_t kPieceBytes = 32 << 10;
/// Parts of an all-reduce begin at cache lines.
constexpr int64_t kLine = 64;

/// The box of a part of `whole` along `dim`, at `offset`.
Box partBox(const Dims &whole, int dim, int64_t offset) {
  Box box{whole, Dims(whole.size(), 0)};
  box.offset[dim] = offset;
  return box;
}

/// What the parts of a group make, joined along `dim`.
Dims wholeOf(Dims part, int dim, const RankGroup &group) {
  part[dim] *= group.size();
  return part;
}
/// A rank's part of what is divided along `dim`.
Dims partOf(Dims whole, int dim, const RankGroup &group) {
  whole[dim] /= group.size();
  return whole;
}

class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(ThreadWorld::Impl &world, int number, std::string queue = "")
      : world(world), number(number), queue(std::move(queue)) {}

  int rank() const override { return number; }
  int worldSize() const override { return world.size(); }
  std::chrono::milliseconds timeLimit() const override { return world.limit(); }
  void setPulse(const StepPulse &pulse) override { world.setPulse(number, pulse); }
  std::unique_ptr<Communicator> forQueue(const std::string &name) override {
    return std::make_unique<ThreadCommunicator>(world, number, name);
  }

  RankGroup group(const std::vector<int> &ranks) override {
    RankGroup group;
    group.ranks = ranks;
    group.position =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), number) - ranks.begin());
    group.id = world.groupOf(queue, ranks);
    return group;
  }

  Status allReduce(const RankGroup &group, Reduction kind, DType dtype,
                   std::span<const Transfer> buffers) override {
    ThreadGroup &shared = world.groupAt(group.id);
    CollectiveCall call{"all_reduce", dtype, static_cast<int>(kind), -1, -1, buffers};
    if (Status status = enter(shared, group, call); !status.isOk())
      return status;
    reduceParts(shared, group, kind, dtype);
    return leave(shared, group);
  }

  Status allGather(const RankGroup &group, DType dtype, std::span<const Transfer> buffers,
                   int dim) override {
    ThreadGroup &shared = world.groupAt(group.id);
    CollectiveCall call{"all_gather", dtype, 0, dim, -1, buffers};
    if (Status status = enter(shared, group, call); !status.isOk())
      return status;
    bool inPlace = shared.anyInPlace();
    if (inPlace) {
      // Every rank first puts its own part where it belongs; then parts are read from targets.
      for (const Transfer &buffer : buffers)
        spreadOwnPart(buffer, dtype, wholeOf(buffer.shape, dim, group), dim, group.position);
      if (Status status = leave(shared, group); !status.isOk())
        return status;
    }
    for (size_t i = 0; i < buffers.size(); ++i)
      gatherParts(shared, group, dtype, i, dim, inPlace);
    return leave(shared, group);
  }

  Status reduceScatter(const RankGroup &group, Reduction kind, DType dtype,
                       std::span<const Transfer> buffers, int dim) override {
    ThreadGroup &shared = world.groupAt(group.id);
    CollectiveCall call{"reduce_scatter", dtype, static_cast<int>(kind), dim, -1, buffers};
    if (Status status = enter(shared, group, call); !status.isOk())
      return status;
    for (size_t i = 0; i < buffers.size(); ++i)
      reducePart(shared, group, kind, dtype, i, dim);
    if (Status status = leave(shared, group); !status.isOk())
      return status;
    for (const Transfer &buffer : buffers)
      if (buffer.source == buffer.target) {
        Dims part = partOf(buffer.shape, dim, group);
        copyBox(part, buffer.target, partBox(part, dim, 0), buffer.target,
                partBox(buffer.shape, dim, group.position * part[dim]), sizeOf(dtype));
      }
    return Status::ok();
  }

  Status allToAll(const RankGroup &group, DType dtype, const Transfer &buffer, int splitDim,
                  int concatDim) override {
    ThreadGroup &shared = world.groupAt(group.id);
    CollectiveCall call{"all_to_all", dtype, 0, splitDim, concatDim, {&buffer, 1}};
    if (Status status = enter(shared, group, call); !status.isOk())
      return status;
    Dims part = partOf(buffer.shape, splitDim, group);
    Dims whole = wholeOf(part, concatDim, group);
    for (int peer = 0; peer < group.size(); ++peer)
      copyBox(part, buffer.target, partBox(whole, concatDim, peer * part[concatDim]),
              shared.transfer(peer).source,
              partBox(buffer.shape, splitDim, group.position * part[splitDim]), sizeOf(dtype));
    return leave(shared, group);
  }

  Status permute(const RankGroup &group, DType dtype, const Transfer &buffer,
                 std::span<const int64_t> sources) override {
    ThreadGroup &shared = world.groupAt(group.id);
    CollectiveCall call{"permute", dtype, 0, -1, -1, {&buffer, 1}};
    if (Status status = enter(shared, group, call); !status.isOk())
      return status;
    uint64_t bytes = static_cast<uint64_t>(product(buffer.shape) * sizeOf(dtype));
    const char *theirs = shared.transfer(static_cast<int>(sources[group.position])).source;
    if (!shared.anyInPlace()) {
      std::memcpy(buffer.target, theirs, bytes);
      return leave(shared, group);
    }
    alignas(64) char piece[kPieceBytes];
    for (uint64_t done = 0; done < bytes; done += kPieceBytes) {
      uint64_t size = std::min(kPieceBytes, bytes - done);
      std::memcpy(piece, theirs + done, size);
      if (Status status = leave(shared, group); !status.isOk())
        return status;
      std::memcpy(buffer.target + done, piece, size);
    }
    return leave(shared, group);
  }

  Status broadcast(const RankGroup &group, char *data, uint64_t bytes, int root) override {
    ThreadGroup &shared = world.groupAt(group.id);
    Transfer buffer{data, data, {static_cast<int64_t>(bytes)}};
    CollectiveCall call{"broadcast", DType::U8, root, -1, -1, {&buffer, 1}};
    if (Status status = enter(shared, group, call); !status.isOk())
      return status;
    if (group.position != root && bytes > 0)
      std::memcpy(data, shared.transfer(root).source, bytes);
    return leave(shared, group);
  }

  Status barrier(const RankGroup &group) override {
    ThreadGroup &shared = world.groupAt(group.id);
    return shared.meet(group.position, "barrier", purpose);
  }

  Status send(int to, uint32_t channel, std::span<const SendBlock> blocks) override {
    return world.mailbox(number, to, channel).send(blocks, purpose);
  }
  Status receive(int from, uint32_t channel, std::span<const ReceiveBlock> blocks) override {
    return world.mailbox(from, number, channel).receive(blocks, purpose);
  }

  void abort(const Status &reason) override { world.abort(reason); }
  Status waitedTooLong(const Status &reason, std::optional<int>) override {
    world.abort(reason);
    return reason;
  }
  Status deviceTookTooLong(const Status &reason, const std::function<bool()> &isDone) override {
    return world.deviceTimedOut(number, reason, isDone);
  }
  Status check() const override { return world.check(); }

private:
  Status enter(ThreadGroup &shared, const RankGroup &group, const CollectiveCall &call) {
    shared.publish(group.position, call);
    current = call.name;
    if (Status status = shared.meet(group.position, current, purpose); !status.isOk())
      return status;
    if (int peer = shared.findMismatch(group.position); peer >= 0)
      return failed("rank " + std::to_string(number) + " calls " + call.name + " at " + purpose +
                    " while another does something else: rank " +
                    std::to_string(group.ranks[peer]));
    return Status::ok();
  }

  Status leave(ThreadGroup &shared, const RankGroup &group) {
    return shared.meet(group.position, current, purpose);
  }

  /// This rank's part of the elements of all buffers, taken one after the other.
  void reduceParts(ThreadGroup &shared, const RankGroup &group, Reduction kind, DType dtype) {
    const std::vector<Transfer> &own = shared.transfers(group.position);
    int64_t total = 0, line = kLine / sizeOf(dtype);
    for (const Transfer &buffer : own)
      total += product(buffer.shape);
    int64_t lines = (total + line - 1) / line;
    int64_t begin = lines * group.position / group.size() * line;
    int64_t end = std::min(total, lines * (group.position + 1) / group.size() * line);
    std::vector<const char *> sources(group.size());
    std::vector<char *> targets(group.size());
    int64_t base = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      int64_t size = product(own[i].shape);
      int64_t first = std::max(begin, base), last = std::min(end, base + size);
      for (int peer = 0; peer < group.size(); ++peer) {
        sources[peer] = shared.transfers(peer)[i].source;
        targets[peer] = shared.transfers(peer)[i].target;
      }
      if (first < last)
        reduceInto(kind, dtype, sources, targets, first - base, last - first);
      base += size;
    }
  }

  /// Fills the target of one buffer of an all-gather with the parts of all ranks.
  void gatherParts(ThreadGroup &shared, const RankGroup &group, DType dtype, size_t index, int dim,
                   bool inPlace) {
    const Transfer &own = shared.transfers(group.position)[index];
    Dims whole = wholeOf(own.shape, dim, group);
    for (int peer = 0; peer < group.size(); ++peer) {
      if (inPlace && peer == group.position)
        continue;
      const Transfer &theirs = shared.transfers(peer)[index];
      Box to = partBox(whole, dim, peer * own.shape[dim]);
      Box from = inPlace ? to : partBox(own.shape, dim, 0);
      copyBox(own.shape, own.target, to, inPlace ? theirs.target : theirs.source, from,
              sizeOf(dtype));
    }
  }

  /// This rank's part of one buffer of a reduce-scatter. Only this rank reads its part of any
  /// source, so it may reduce into its own source where the target overlaps that. The part is moved
  /// after the meeting.
  void reducePart(ThreadGroup &shared, const RankGroup &group, Reduction kind, DType dtype,
                  size_t index, int dim) {
    const Transfer &own = shared.transfers(group.position)[index];
    Dims part = partOf(own.shape, dim, group);
    Box mine = partBox(own.shape, dim, group.position * part[dim]);
    bool inPlace = own.source == own.target;
    std::vector<const char *> sources(group.size());
    forEachRun(part, mine, partBox(part, dim, 0), [&](int64_t at, int64_t packed, int64_t count) {
      for (int peer = 0; peer < group.size(); ++peer)
        sources[peer] = shared.transfers(peer)[index].source + at * sizeOf(dtype);
      char *target = own.target + (inPlace ? at : packed) * sizeOf(dtype);
      reduceInto(kind, dtype, sources, {&target, 1}, 0, count);
    });
  }

  /// Moves the rank's part from the start of the target to its place in it, last rows first. A
  /// row's place is never before where it lies.
  void spreadOwnPart(const Transfer &buffer, DType dtype, const Dims &whole, int dim,
                     int position) {
    int64_t row = sizeOf(dtype), rows = 1;
    for (int i = 0; i < static_cast<int>(whole.size()); ++i)
      (i < dim ? rows : row) *= buffer.shape[i];
    int64_t wholeRow = row / std::max<int64_t>(buffer.shape[dim], 1) * whole[dim];
    for (int64_t i = rows; i-- > 0;)
      std::memmove(buffer.target + i * wholeRow + position * row, buffer.source + i * row,
                   static_cast<size_t>(row));
  }

  ThreadWorld::Impl &world;
  int number;
  std::string queue;
  const char *current = "";
};

} // namespace

ThreadWorld::ThreadWorld(int worldSize, std::chrono::milliseconds timeLimit)
    : impl(std::make_unique<Impl>(worldSize, timeLimit)) {}
ThreadWorld::~ThreadWorld() = default;

std::vector<int> ThreadWorld::ranks() const {
  std::vector<int> all(static_cast<size_t>(impl->size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
std::unique_ptr<Communicator> ThreadWorld::communicator(int rank) {
  return std::make_unique<ThreadCommunicator>(*impl, rank);
}
void ThreadWorld::abort(const Status &reason) { impl->abort(reason); }
Status ThreadWorld::abortReason() const { return impl->reason(); }

} // namespace dtc::rt
