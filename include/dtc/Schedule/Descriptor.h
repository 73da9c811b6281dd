// All that is to be known of a kind of schedule. Whoever needs to tell kinds
// apart asks the descriptor; nothing else switches on ScheduleKind.
//
// A schedule is added by a line in Schedules.def and a file in lib/Schedule/Kinds:
//
//   /// All forward passes, then all backward passes in the same order.
//   static CallList calls(const ScheduleShape &shape, int64_t rank) { ... }
//
//   const Descriptor kGPipe = {
//       .name = "gpipe",
//       .about = "GPipe: all forward passes, then all backward passes.",
//       .isSearched = false,
//       .keepsAll = true,
//       .calls = calls,
//       .lowerBound = lowerBound};
//
// What it leaves out has the values below. The tests of the library, of the
// simulator and of the planner try every descriptor of the list by themselves.
#pragma once

#include "dtc/Schedule/Bounds.h"
#include "dtc/Schedule/Schedule.h"

#include <span>

namespace dtc::schedule {

using CallList = std::vector<Call>;

struct Descriptor {
  /// In a SPEC, in plan.yaml and in JSON.
  const char *name = "";
  /// A sentence or two for reports.
  const char *about = "";

  int64_t fewestChunks = 1, mostChunks = 1; ///< stages a rank
  /// A planner tries it without being asked to.
  bool isSearched = true;
  /// A rank keeps all microbatches of a step at once. Otherwise it keeps no more of
  /// many than of a few times as many as there are ranks.
  bool keepsAll = false;
  /// How many microbatches a rank keeps at most where a shape doesn't say. Null: shapes can't say
  /// (ScheduleShape::kept).
  int64_t (*usuallyKept)(int64_t ranks) = nullptr;
  /// Programs that overlap sending with computing in some schedules do so in this one
  /// (`overlaps_sends` of a cluster's software).
  bool sendsBesideCalls = false;

  /// Why there is no schedule of this shape, whose size and chunks are right, in one
  /// line; empty: there is one. Null: there always is.
  std::string (*unsupported)(const ScheduleShape &shape) = nullptr;
  /// Null: in turn.
  Placement (*placement)(const ScheduleShape &shape) = nullptr;
  /// A rank's calls in order; makeSchedule adds the slots.
  CallList (*calls)(const ScheduleShape &shape, int64_t rank) = nullptr;
  /// How many microbatches of a chunk lack their gradients of weights when the rank has
  /// made its last input gradient call. Null: the backward pass is one call.
  int64_t (*lateWeightGrads)(const ScheduleShape &shape, int64_t rank, int64_t chunk) = nullptr;
  /// Seconds that no step falls below. Null: what holds for all schedules.
  double (*lowerBound)(const StepPaths &paths) = nullptr;

  bool splitsBackward() const { return lateWeightGrads != nullptr; }
  bool limitsKept() const { return usuallyKept != nullptr; }
};

/// In the order of Schedules.def.
std::span<const ScheduleKind> allSchedules();
const Descriptor &describe(ScheduleKind kind);

inline const char *name(ScheduleKind kind) { return describe(kind).name; }
std::optional<ScheduleKind> scheduleFromName(const std::string &name);

} // namespace dtc::schedule
