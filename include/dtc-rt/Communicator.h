// How the ranks of a run exchange data.
//
// A group is the ranks that differ only along some mesh axes, ordered by their position on them.
// Every rank of a group makes the same calls in the same order, each with its own buffers. A call
// returns when the rank's target is complete and its source may be reused. Results don't depend on
// timing: reductions add in the order of positions, in f32 for 16-bit floats.
//
// A message has a sender and a receiver. From one rank to another, the n-th message sent on a
// channel is the n-th received on it. `send` returns when its buffers may be reused.
//
// Ranks wait blocked, never spinning, and at most the run's time limit. When one
// rank aborts, every waiting and every later call on any rank returns an error.
#pragma once

#include "dtc-rt/Program/DType.h"
#include "dtc-rt/Program/Shape.h"
#include "dtc-rt/Status.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dtc::rt {

enum class Reduction : uint8_t { Sum, Max, Min };

struct RankGroup {
  std::vector<int> ranks; ///< by position
  int position = 0;       ///< of this rank
  int id = 0;             ///< given by the communicator
  int size() const { return static_cast<int>(ranks.size()); }
};

/// One rank's buffers, aligned to their elements. source == target, or they don't overlap
/// (all_to_all: never equal).
struct Transfer {
  const char *source = nullptr;
  char *target = nullptr;
  Dims shape; ///< of the source
};

/// A buffer of a message.
template <typename T> struct MessageBlock {
  T *data = nullptr;
  uint64_t bytes = 0;
};
using SendBlock = MessageBlock<const char>;
using ReceiveBlock = MessageBlock<char>;

/// What a rank says of its steps, so that one that hangs is found before the time limit.
struct StepPulse {
  int64_t step = 0;                 ///< in which it is; 0: it does what may take any time
  std::chrono::seconds patience{0}; ///< how long a step may take
  bool computesHere = false;        ///< all is computed by threads of the rank's process
};

/// The channel of messages that the runtime itself sends.
inline constexpr uint32_t kRuntimeChannel = ~0u;

/// One rank's end; for one thread.
class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int worldSize() const = 0;
  /// How long a rank waits for another. It becomes shorter where steps hang (setPulse).
  virtual std::chrono::milliseconds timeLimit() const = 0;
  /// Where all ranks are in a step, and none has come to another one for longer than any of them
  /// says, that becomes their time limit, until they do. So does the least that ranks ever say,
  /// where all compute by themselves and none of them computes anything for so long.
  virtual void setPulse(const StepPulse &) {}
  /// The same rank's end for a queue. Its collectives meet those of queues of the
  /// same name.
  virtual std::unique_ptr<Communicator> forQueue(const std::string &name) = 0;
  /// Likewise for what ranks tell each other beside their steps: no rank is held up by it.
  virtual std::unique_ptr<Communicator> forNews(const std::string &name) { return forQueue(name); }
  /// The group of these ranks, of which this is one; asked for before the run.
  virtual RankGroup group(const std::vector<int> &ranks) = 0;

  /// Several buffers reduced at once, each in place or into another.
  virtual Status allReduce(const RankGroup &group, Reduction kind, DType dtype,
                           std::span<const Transfer> buffers) = 0;
  /// The parts of all ranks joined along `dim`, for several buffers at once.
  virtual Status allGather(const RankGroup &group, DType dtype, std::span<const Transfer> buffers,
                           int dim) = 0;
  /// The reductions, of which this rank keeps its part along `dim`.
  virtual Status reduceScatter(const RankGroup &group, Reduction kind, DType dtype,
                               std::span<const Transfer> buffers, int dim) = 0;
  /// Part i along `splitDim` goes to position i; what arrives is joined along `concatDim`.
  virtual Status allToAll(const RankGroup &group, DType dtype, const Transfer &buffer, int splitDim,
                          int concatDim) = 0;
  /// Position i gets the source of position sources[i].
  virtual Status permute(const RankGroup &group, DType dtype, const Transfer &buffer,
                         std::span<const int64_t> sources) = 0;
  /// All get what `root` (a position) has.
  virtual Status broadcast(const RankGroup &group, char *data, uint64_t bytes, int root) = 0;
  virtual Status barrier(const RankGroup &group) = 0;

  /// Both ends have buffers of the same sizes.
  virtual Status send(int to, uint32_t channel, std::span<const SendBlock> blocks) = 0;
  virtual Status receive(int from, uint32_t channel, std::span<const ReceiveBlock> blocks) = 0;

  /// Ends the run on all ranks; the first call's reason is kept.
  virtual void abort(const Status &reason) = 0;
  /// Ends the run because this rank has waited too long: for `missing`, or, where that isn't known,
  /// for any other. Adds to the reason which rank's process doesn't answer.
  virtual Status waitedTooLong(const Status &reason, std::optional<int> missing) = 0;
  /// Likewise where no rank is missing, but a device doesn't end what all have called. `isDone`
  /// gives up what the device waits for of others, and says whether it has ended since. Where some
  /// have, adds to the reason whose devices haven't.
  virtual Status deviceTookTooLong(const Status &reason, const std::function<bool()> &isDone) = 0;
  /// Not ok after an abort.
  virtual Status check() const = 0;
  /// What the next calls are for, said when they time out.
  void setPurpose(const char *name) { purpose = name; }

protected:
  const char *purpose = "";
};

/// The ranks of a run, of which some or one are in this process. Outlives their communicators.
class World {
public:
  virtual ~World() = default;

  /// Those in this process.
  virtual std::vector<int> ranks() const = 0;
  virtual std::unique_ptr<Communicator> communicator(int rank) = 0;
  /// As Communicator::abort, from any thread.
  virtual void abort(const Status &reason) = 0;
  /// Why the run was aborted; ok when it wasn't.
  virtual Status abortReason() const = 0;
};

} // namespace dtc::rt
