// Pipeline schedules: for every rank of the pipeline, the calls of one step in
// the order in which it makes them. These lists are what is simulated, and what
// a rank executes.
//
// The layers of a model are cut into P * C stages. Each of P ranks holds C of
// them, its chunks; which ones is a table (Placement.h). For P = 2, C = 1 and 3
// microbatches, 1F1B is
//
//   rank 0   F0 F1 B0 F2 B1 B2        slots  0 1 0 0 1 0
//   rank 1   F0 B0 F1 B1 F2 B2        slots  0 0 0 0 0 0
//
// A hand-written schedule of P = 2, C = 2 may have a V-shaped placement. Rank 0 then holds the
// stages 0 and 3, rank 1 the stages 1 and 2. A dot names the chunk:
//
//   rank 0   F0           F0.1 B0.1          B0
//   rank 1      F0   F0.1           B0.1 B0
//
// What a forward call keeps for its backward call lies in a slot of its chunk. The slot is free
// again once the backward pass of that microbatch is over. Rank 0 of 1F1B needs two slots (F2 takes
// the one that B0 left), rank 1 one.
//
// The list schedule takes a limit of what a rank keeps at a time. I are input gradients and W
// those of weights. Rank 0 makes, for P = 2 and 4 microbatches,
//
//   kept = 3   F0 F1 F2 I0 W0 I1 F3 I2 W1 W2 I3 W3
//   kept = 2   F0 F1 I0 W0 I1 F2 W1 F3 I2 W2 I3 W3
//   kept = 1   F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3
//
// The backward pass may come in two calls. First come the gradients of the stage's input, for which
// the stage before waits, later those of its weights. In every schedule the gradients of a stage's
// weights are added up in ascending order of microbatches. So all schedules give the same sums to
// the bit.
//
// A list says nothing of transfers. The result of a stage is sent as soon as its call is over,
// without waiting for the receiver. A call waits for what it needs. Two ranks may exchange messages
// of several chunks in different orders, so a message is known by (stage, microbatch), not by its
// turn.
//
// What is to be known of a kind of schedule is its descriptor (Descriptor.h).
#pragma once

#include "dtc/Schedule/Placement.h"

#include <optional>

namespace dtc::schedule {

/// A name for each line of Schedules.def.
enum class ScheduleKind : uint8_t {
#define DTC_SCHEDULE(kind) kind,
#include "dtc/Schedule/Schedules.def"
};

enum class Pass : uint8_t {
  Forward,
  Backward,  ///< gradients of the stage's input and of its weights
  InputGrad, ///< only those of the input: what the stage before waits for
  WeightGrad ///< the rest, at any time after
};

/// One call of a stage's function.
struct Call {
  Pass pass = Pass::Forward;
  int32_t chunk = 0;
  int32_t microbatch = 0;
  int32_t slot = 0; ///< of the chunk, the same in all passes of a microbatch
  bool operator==(const Call &) const = default;
};

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int64_t ranks = 1;
  int64_t chunks = 1; ///< stages a rank
  int64_t microbatches = 1;
  /// How many microbatches a rank keeps at most, if the kind takes a limit. 0: as many as the kind
  /// keeps by itself (Descriptor::usuallyKept).
  int64_t kept = 0;
  int64_t stages() const { return ranks * chunks; }
  bool operator==(const ScheduleShape &) const = default;
};

struct Schedule {
  ScheduleShape shape;
  Placement placement;
  std::vector<std::vector<Call>> calls; ///< by rank
  std::vector<std::vector<int32_t>> slots; ///< by rank and chunk: how many there are

  int64_t stage(int64_t rank, int64_t chunk) const { return placement.stage(rank, chunk); }
  bool operator==(const Schedule &) const = default;
};

/// Why a schedule of any kind can't have so many ranks, chunks or microbatches, in
/// one line; empty: it can.
std::string impossibleSize(const ScheduleShape &shape);

/// Why there is no such schedule, in one line; empty: there is one.
std::string unsupported(const ScheduleShape &shape);

/// Where the stages of a shape lie; the shape is supported.
Placement placementOf(const ScheduleShape &shape);

/// The schedule of a shape; nothing where it is unsupported.
std::optional<Schedule> makeSchedule(const ScheduleShape &shape);

/// Checks a schedule by carrying it out, sharing no code with those that make them. Every
/// microbatch must pass every stage once forward and once backward. No list may wait for ever, and
/// no slot hold two microbatches at a time. Gradients of weights must be added in ascending order
/// of microbatches. Empty, or the first violation in one line.
std::string check(const Schedule &schedule);

} // namespace dtc::schedule
