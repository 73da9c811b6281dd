// A plan: everything that was decided about how to train, as plain data.
//
// It is what a planner returns, what `--save-plan` writes and `--plan FILE`
// reads, and what PlanBridge applies to the IR.
//
// Take two layers y = x[b,s,k] w[k,n] on four devices, one layer a pipeline rank. With
// dp=2 pp=2 zero=1 a plan has
//
//   degrees    dp=2 pp=2 zero=1 schedule=1f1b     what a SPEC can name
//   mesh       <dp=2>                             of the ranks of one stage
//   ops        contract: b by dp                  axes for each op's factors
//   arguments  x: [{dp}, {}, {}]   w: [{}, {}]    the shard that a rank reads
//   storage    w: state over dp                   what a rank keeps a part of
//   stages     ops 0 to 0 on devices 0, 1;  ops 1 to 1 on devices 2, 3
#pragma once

#include "dtc/Plan/Plan/AxisOrder.h"
#include "dtc/Plan/Plan/ExpertCapacity.h"
#include "dtc/Plan/Plan/Result.h"
#include "dtc/Schedule/Schedule.h"
#include "dtc/Sharding/Rule.h"

#include <map>

namespace dtc::plan {

using schedule::ScheduleKind;
/// Of plans without a pipeline too, where all schedules are the same.
inline constexpr ScheduleKind kDefaultSchedule = ScheduleKind::OneFOneB;

enum class Recompute : uint8_t { None, Selective, Full };
enum class Offload : uint8_t { None, Optimizer };
/// What tensor parallelism does with weight matrices. Any: cuts them, or leaves them whole and
/// exchanges activations, whichever is faster. Split: cuts each that can be cut, as Megatron does.
enum class TensorWeights : uint8_t { Any, Split };
/// What ranks that share a sequence exchange for attention. Keys: they gather keys and values.
/// Heads: all ranks get all tokens of some of the heads, where these can be divided. Ring: they
/// pass keys and values on to each other, part by part (Sharding/Ring.h).
enum class ContextExchange : uint8_t { Keys, Heads, Ring };

/// The largest degree of parallelism and batch.
inline constexpr int64_t kMostDegree = int64_t{1} << 24;
/// Each plan that is tried lists its devices.
inline constexpr int64_t kMostDevices = int64_t{1} << 20;

/// Pipeline ranks beside each other that have a mesh of their own. 8 H100 joined by
/// NVLink and 8 L40S without it could be two stages
///
///   {.pp = 1, .dp = 2, .tp = 4, .microBatch = 4}   a microbatch is 2 x 4 samples
///   {.pp = 1, .dp = 8, .tp = 1, .microBatch = 1}   and the same 8 x 1 samples here
///
/// that send each other what one has in quarters and the other in eighths.
struct StageGroup {
  int64_t pp = 1; ///< how many ranks
  int64_t dp = 1, tp = 1;
  bool sp = false;
  int64_t microBatch = 1; ///< dp * microBatch is the same in all groups
  auto operator<=>(const StageGroup &) const = default;
};

/// The degrees of parallelism, and what else a SPEC can name. Each member has a row in the table of
/// settings (Settings.h).
struct Degrees {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  bool sp = false;
  /// What the forward pass gathered of activations is gathered again for the backward pass.
  bool regather = false;
  ContextExchange contextExchange = ContextExchange::Keys;
  TensorWeights tensorWeights = TensorWeights::Any;
  ExpertCapacity capacity;
  Overflow overflow = Overflow::Error;
  int zero = 0;
  /// How many of the model's repeated blocks are stored by that level of ZeRO, where all else is
  /// stored by the one below. 0 means that all are stored alike.
  int64_t zeroBlocks = 0;
  /// Data-parallel ranks that share ZeRO's storage, with the ep and cp ranks beside them (hybrid
  /// sharding). 0 means all of dp, and so does a stage group with no more.
  int64_t zeroGroup = 0;
  ScheduleKind schedule = kDefaultSchedule;
  int64_t chunks = 1;
  /// How many microbatches a pipeline rank keeps at most, by a schedule that takes such a limit. 0:
  /// as many as the schedule does by itself.
  int64_t kept = 0;
  int64_t microBatch = 1; ///< samples per data-parallel rank and microbatch
  int64_t numMicrobatches = 1;
  Recompute recompute = Recompute::None;
  /// How many of the model's repeated blocks are recomputed; 0: all alike.
  int64_t recomputeBlocks = 0;
  Offload offload = Offload::None;
  AxisOrder order = kDefaultOrder; ///< on the devices
  /// All pipeline ranks in order, where their meshes differ; dp, tp, sp and microBatch
  /// above are then the first group's. Empty: all have the same mesh.
  std::vector<StageGroup> groups = {};
  int64_t devices() const;
  /// Ranks that have samples of their own, and what they make of a step's.
  int64_t dataRanks() const { return dp * ep; }
  int64_t samples() const { return dataRanks() * microBatch * numMicrobatches; }
  auto operator<=>(const Degrees &) const = default;
};

/// Of a pipeline rank; 0 where all have the same mesh.
size_t groupOf(const Degrees &degrees, int64_t rank);
/// How many there are; 1 where all ranks have the same mesh.
size_t groupCount(const Degrees &degrees);
/// As if all ranks had the mesh of one group.
Degrees inGroup(const Degrees &degrees, size_t group);
/// Whether dp, tp, sp and microBatch are those of the first group.
bool agreesWithFirstGroup(const Degrees &degrees);
/// "" or "(1|3)": how many pipeline ranks each group has, where there are several.
std::string rankCounts(const Degrees &degrees);

int64_t degreeOf(const Degrees &degrees, Axis axis);
/// By axis; what an axis of degree 1 has means nothing.
Strides stridesOf(const Degrees &degrees);
/// Whether the order puts each rank where the default order does.
bool hasDefaultPlacement(const Degrees &degrees);
/// Why the axes can't lie on the devices in this order, or "". Where these are of several
/// types, or stages have meshes of their own, ranks lie as the default order puts them.
std::string whyNotPlaced(const Degrees &degrees, bool severalTypes);
/// Of the axes of a mesh; where a degree has several, its last is the innermost.
void setStrides(sharding::Mesh &mesh, const Strides &strides);
/// The devices of a pipeline rank, in the order of the mesh's ranks.
std::vector<int64_t> devicesOf(const Degrees &degrees, const sharding::Mesh &mesh,
                               int64_t pipelineRank);

/// The axes that split the batch: those of dp, then those of ep.
sharding::AxisList batchAxes(const sharding::Mesh &mesh);

/// The pipeline schedule of a plan. A single rank alternates forward and
/// backward passes, whatever the kind.
schedule::ScheduleShape scheduleShape(const Degrees &degrees);

/// Where its stages lie on pipeline ranks.
schedule::Placement placementOf(const Degrees &degrees);

/// Where a parameter, its gradient accumulator and its optimizer state live. What ZeRO calls levels
/// are shardings of what is stored, beside the one that ops read.
struct ParameterStorage {
  std::string parameter;
  sharding::TensorSharding use;        ///< as the ops read it
  sharding::AxisList storageAxes;      ///< flattened local parameter split over these (ZeRO-3)
  sharding::AxisList gradientAxes;     ///< accumulator split over these (ZeRO-2)
  sharding::AxisList stateAxes;        ///< optimizer state split over these (ZeRO-1)
  bool operator==(const ParameterStorage &) const = default;
};

/// One pipeline stage chunk: a contiguous range of forward ops on a mesh.
struct Stage {
  int64_t firstOp = 0, lastOp = 0; ///< forward op ids, inclusive
  /// Device ids, in mesh order, as Degrees::order puts them (devicesOf); those of the
  /// pipeline rank on which the schedule places the stage (placementOf).
  std::vector<int64_t> devices;
  bool operator==(const Stage &) const = default;
};

/// Recomputation of one repeated block.
struct BlockRecompute {
  int64_t block = 0;
  Recompute kind = Recompute::None;
  bool operator==(const BlockRecompute &) const = default;
};

/// How a model lies on the mesh of a stage.
struct ModelSharding {
  sharding::Mesh mesh; ///< of one stage
  /// Sharding of each op of loss_and_grads (or forward), by op index in the problem.
  std::vector<sharding::OpSharding> ops;
  /// Sharding of each argument, by value id of the problem.
  std::map<int64_t, sharding::TensorSharding> arguments;
  std::vector<ParameterStorage> storage;
  bool operator==(const ModelSharding &) const = default;
};

struct Plan : ModelSharding {
  Degrees degrees;
  std::vector<Stage> stages;
  std::vector<BlockRecompute> recompute;
  /// Of the second and later of Degrees::groups. Each lays out the whole model: what
  /// it says of ops that other groups run is how their results arrive.
  std::vector<ModelSharding> others;
  bool operator==(const Plan &) const = default;
};

/// The sharding of a group's stages.
const ModelSharding &shardingOf(const Plan &plan, size_t group);
/// As if all stages had the mesh and the sharding of one group.
Plan inGroup(const Plan &plan, size_t group);

struct Problem;

/// "dp=2 tp=2 pp=1 ..." in the order of the SPEC.
std::string summary(const Degrees &degrees);

/// The plan as YAML, for `--save-plan`. Axes, ops and arguments have their names from the problem,
/// so that it can be read and edited.
std::string toYaml(const Plan &plan, const Problem &problem);
/// Its degrees alone, which say how the batch is to be cut before there is a
/// problem to read the rest against.
Result<Degrees> degreesFromYaml(const std::string &text, const std::string &file);
/// Reads it back. Errors name file, line and key; a plan made for another
/// problem is refused.
Result<Plan> planFromYaml(const std::string &text, const std::string &file,
                          const Problem &problem);

} // namespace dtc::plan
