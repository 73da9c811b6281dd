// The event simulator. It says how long a step of a pipeline schedule takes, where its time goes
// and what every rank holds in memory at every moment.
//
// One rank stands for all devices of its pipeline stages, which do the same. It
// has a compute stream, which makes the calls of its list one after another,
// and a communication stream. Two ranks, 1F1B, three microbatches, a backward
// pass twice as long as a forward pass, and sending half as long:
//
//   rank 0  compute [F0][F1]            [--B0--][F2][--B1--]        [--B2--]
//           sends       ~~  ~~                      ~~
//   rank 1  compute       [F0][--B0--][F1][--B1--]    [F2][--B2--]
//           sends                     ~~          ~~              ~~
//
// This takes 14 instead of the 9 that each rank computes: both idle.
//
// A call begins when the one before it is over and what it needs has arrived. Its blocking
// communication (tensor parallel collectives) is part of it. Its overlapped communication (ZeRO
// gathers) runs beside it on the communication stream. The call is over when both are. A result is
// sent when its call is over and travels while sender and receiver go on computing. Between chunks
// of one rank (a V-shaped placement) nothing travels and nothing takes time.
//
// Communication that runs beside computation slows both down (`OverlapSlowdown`). Whatever uses the
// same link level of a rank at the same time shares its bandwidth equally. That holds for transfers
// in the same direction, and for each of them beside the communication stream's collective.
//
// Not modelled: that transfers slow computation down, and contention of the
// blocking part of calls.
#pragma once

#include "dtc/Schedule/Schedule.h"
#include "dtc/Simulate/OverlapSlowdown.h"

#include <string>
#include <vector>

namespace dtc::simulate {

/// Seconds of a piece of work on one device, each as it takes alone.
struct Work {
  double compute = 0;
  double blocking = 0;   ///< communication that computation waits for
  double overlapped = 0; ///< communication beside it
  Work operator+(const Work &other) const {
    return {compute + other.compute, blocking + other.blocking, overlapped + other.overlapped};
  }
  bool operator==(const Work &) const = default;
};

/// A stage of the pipeline; seconds of one microbatch, bytes of one device.
struct StageCost {
  Work forward;
  Work recompute; ///< at the beginning of the backward pass
  Work inputGrad, weightGrad; ///< a full backward call is the sum of all three
  /// Kept from the beginning of a forward call to the end of the backward pass.
  double savedBytes = 0;
  /// What is held, gradients included, from an input gradient call to its weight gradient call.
  /// Where that is more than was saved, it grows during the first.
  double keptBytes = 0;
  /// Beyond what is kept, while a call runs.
  double forwardTransient = 0, backwardTransient = 0, weightGradTransient = 0;
  /// Where memory is placed (Costs): what a slot has beside savedBytes if the backward pass comes
  /// in two calls. Also what each call has beside slots and messages.
  double waitingBytes = 0;
  struct Temporaries {
    double forward = 0, backward = 0, inputGrad = 0, weightGrad = 0;
    bool operator==(const Temporaries &) const = default;
  };
  Temporaries temporaries;
  /// Sum of the gradients over data-parallel ranks, once a step. This share of it may begin
  /// together with the backward pass of the last microbatch, the rest follows that pass.
  double reductionSeconds = 0, reductionOverlap = 0;
  int level = -1; ///< of the links that overlapped work and reduction use; -1: their own
  bool operator==(const StageCost &) const = default;
};

/// Between a stage and the next: a device sends to its peer.
struct Boundary {
  double forwardBytes = 0, backwardBytes = 0; ///< of one microbatch and device
  double bandwidth = 0; ///< bytes/s, each direction; needed where there are bytes to send
  double latency = 0;   ///< seconds
  int level = 0;        ///< of the links it goes over
  /// Where memory is placed, and both stages lie on one rank: what of these bytes the stages have
  /// in their slots anyway. What both of them have counts twice.
  double slotBytes = 0;
  bool operator==(const Boundary &) const = default;
};

/// What a rank does once a step, and keeps all the time.
struct RankCost {
  double staticBytes = 0;     ///< parameters, gradients, optimizer state, buffers, a step's data
  double updateTransient = 0; ///< beyond it, between the calls of two steps: at most
  Work prologue, update;      ///< nothing overlaps them: `overlapped` counts as blocking
  bool operator==(const RankCost &) const = default;
};

struct Costs {
  std::vector<StageCost> stages;      ///< by stage, of which a placement says where it lies
  std::vector<Boundary> boundaries;   ///< after each stage but the last
  std::vector<RankCost> ranks;
  OverlapSlowdown slowdown;
  /// Sending keeps the sender's compute stream busy (Megatron-LM without
  /// overlapped point-to-point communication).
  bool blockingSends = false;
  /// No rank updates before all have summed their gradients (clipping by the
  /// global norm).
  bool jointUpdate = false;
  /// Of several stages: slots and messages have places of their own for the whole step, behind
  /// which calls have their temporaries. What runs once a step may have these, and the slots.
  bool placed = false;
  bool operator==(const Costs &) const = default;
};

enum class EventKind : uint8_t {
  Prologue,
  Forward,
  Backward,
  InputGrad,
  WeightGrad,
  Update,
  Overlapped,  ///< communication of a call, on the communication stream
  Reduction,   ///< of gradients
  SendForward, ///< a call's result, from `rank` to `peer`
  SendBackward
};

struct Event {
  EventKind kind = EventKind::Forward;
  int32_t rank = 0, chunk = -1;        ///< -1: of no chunk
  int32_t stage = -1, microbatch = -1; ///< -1: of none
  int32_t peer = -1; ///< of what is sent
  double begin = 0, end = 0; ///< seconds since the step began
  bool operator==(const Event &) const = default;
};

struct MemoryPoint {
  double seconds = 0;
  double bytes = 0; ///< from then on
  bool operator==(const MemoryPoint &) const = default;
};

/// Of one rank; computeSeconds + exposedSeconds + idleSeconds is the step.
struct RankTimeline {
  double computeSeconds = 0;
  /// No computation goes on because of communication. This has blocking parts of calls, overlapped
  /// parts that outlast them or slow them down, and sums of gradients after the last call. It also
  /// has waiting while what is needed is on its way.
  double exposedSeconds = 0;
  double idleSeconds = 0; ///< everything else: the bubble
  /// The most that it holds at a time, and the first such moment; where memory is placed, the
  /// bytes are those of all places.
  double peakBytes = 0, peakSeconds = 0;
  std::vector<MemoryPoint> memory; ///< only with a trace
  bool operator==(const RankTimeline &) const = default;
};

struct Timeline {
  /// Why nothing could be simulated, in one line; stepSeconds is then infinite.
  std::string error;
  double stepSeconds = 0;
  /// Idle time of all ranks over ranks * stepSeconds. With communication for
  /// free and equal stages, 1F1B has (P - 1) / (M + P - 1).
  double bubbleFraction = 0;
  /// Mean of the ranks': what a step is the longer for communication.
  double exposedSeconds = 0;
  std::vector<RankTimeline> ranks;
  std::vector<Event> events; ///< only with a trace; by begin
};

struct Options {
  bool trace = false; ///< record events and memory over time
};

/// Why costs can't belong to a schedule of this shape (sizes, negative or
/// infinite figures), in one line; empty: they can.
std::string check(const schedule::ScheduleShape &shape, const Costs &costs);

/// Simulates one step in O(calls * log(ranks)). The same input gives the same
/// timeline, bit for bit. The schedule is one that schedule::check accepts, perhaps
/// made by hand; one that waits for ever is an error all the same.
Timeline simulate(const schedule::Schedule &schedule, const Costs &costs,
                  const Options &options = {});

/// Seconds that no step of this shape can fall below, in O(stages) and without its lists. It is
/// never more than `simulate` gives. It equals that where stages are alike and communication
/// doesn't collide. 0 for a shape that is unsupported or costs that `check` refuses.
double lowerBound(const schedule::ScheduleShape &shape, const Costs &costs);

/// Seconds of a call that makes the rank wait for nothing from others. Computing and what
/// computation waits for come in a row. What is overlapped runs beside both, each slowed down while
/// the other runs. No call of a simulated step takes less.
double callSeconds(const Work &work, const OverlapSlowdown &slowdown);

/// What a rank holds at least when it holds most, from the order of its calls alone. It is what
/// `simulate` gives without the messages that wait or travel. The schedule and the costs are such
/// as `simulate` takes.
double leastPeakBytes(const schedule::Schedule &schedule, const Costs &costs, int64_t rank);

} // namespace dtc::simulate
