// Pipeline schedules: for every rank of the pipeline, the calls of one step in
// the order in which it makes them. These lists are what is simulated, and what
// a rank executes.
//
// The layers of a model are cut into P * C stages. Rank r holds C of them, its
// chunks: chunk c of rank r is stage c * P + r, so that a microbatch visits all
// ranks C times. For P = 2, C = 1 and 3 microbatches, 1F1B is
//
//   rank 0   F0 F1 B0 F2 B1 B2        slots  0 1 0 0 1 0
//   rank 1   F0 B0 F1 B1 F2 B2        slots  0 0 0 0 0 0
//
// What a forward call keeps for its backward call lies in a slot of its chunk,
// free again once the backward pass of that microbatch is over: rank 0 needs
// two slots (F2 takes the one that B0 left), rank 1 one.
//
// A list says nothing of transfers: the result of a stage is sent as soon as
// its call is over, without waiting for the receiver, and a call waits for what
// it needs. Two ranks may exchange messages of several chunks in different
// orders, so a message is known by (stage, microbatch), not by its turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc::schedule {

enum class ScheduleKind : uint8_t { GPipe, OneFOneB, Interleaved, ZeroBubble };

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
  int64_t stages() const { return ranks * chunks; }
  bool operator==(const ScheduleShape &) const = default;
};

struct Schedule {
  ScheduleShape shape;
  std::vector<std::vector<Call>> calls; ///< by rank
  std::vector<std::vector<int32_t>> slots; ///< by rank and chunk: how many there are

  int64_t stage(int64_t rank, int64_t chunk) const { return chunk * shape.ranks + rank; }
  bool operator==(const Schedule &) const = default;
};

/// Why there is no such schedule, in one line; empty: there is one.
std::string unsupported(const ScheduleShape &shape);

/// The schedule of a shape; nothing where it is unsupported.
std::optional<Schedule> makeSchedule(const ScheduleShape &shape);

/// Checks a schedule by carrying it out, sharing no code with those that make
/// them: every microbatch passes every stage once forward and once backward,
/// no list waits for ever, no slot holds two microbatches at a time. Empty, or
/// the first violation in one line.
std::string check(const Schedule &schedule);

} // namespace dtc::schedule
