// From the costs of units to what the simulator asks for: seconds and bytes of pipeline
// stages, with parameters stored as ZeRO has it.
//
// A parameter's local part is what tensor parallelism leaves to a rank. It may be stored split over
// `storage` axes (gathered for each pass, ZeRO-3). Its gradients may be split over `gradient` axes
// (scattered each microbatch, ZeRO-2), and its optimizer state over `state` axes (ZeRO-1):
// Rajbhandari et al., ZeRO, SC 2020. Gathers and scatters run beside the computation of other
// blocks, except the first gather and the last scatter of a pass. FSDP does so, too (Zhao et al.,
// PyTorch FSDP, VLDB 2023). Parts of a model may be stored by one level of ZeRO and the rest by the
// level below (Storage.h).
//
// Take a GPT of 16 layers of width 2048 in bf16 as two stages on H100s, with dp=4. Microbatches
// have 4 samples of 1024 tokens. The first stage has 369 million parameters. Its forward call takes
// 6.1 ms and its backward call 12.6 ms. A microbatch keeps 1.96 GB between them. A rank has, in MB,
//
//   zero  parameters  gradients  states   gathers                 scatters
//   1            738       1476    1107    738 a step, 3.0 ms     1476 a step, 5.9 ms
//   2            738        369    1107    738 a step, 3.0 ms     1476 a microbatch, 3.5 ms
//   3            185        369    1107    738 a pass, 2.0 ms     1476 a microbatch, 3.5 ms
#pragma once

#include "dtc/Plan/Cost/CollectiveTimes.h"
#include "dtc/Plan/Emulate/AllocatorReplay.h"
#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Predict/Prediction.h"
#include "dtc/Plan/Predict/UnitCosts.h"
#include "dtc/Simulate/Simulate.h"

#include <algorithm>
#include <memory>
#include <span>

namespace dtc::plan {

/// The units [begin, end) as a stage, and what it does to fit its memory. Of units 3 to 10
/// with 6 as `kept` the first three are recomputed.
struct StageRun {
  StageRun(int begin, int end) : begin(begin), end(end), kept(begin) {}
  int begin, end;
  int kept;
};

/// The stages that follow each other between cuts, of which nothing is recomputed.
std::vector<StageRun> runsBetween(const std::vector<int> &cuts);
/// Whether one of these units, which ascend, is in [begin, end).
bool anyWithin(const std::vector<int> &units, int begin, int end);

/// Parameters that are stored and summed up alike; bytes of one rank's local
/// part, by stage.
struct WeightClass {
  sharding::AxisList storage, gradient, state;
  sharding::AxisList pending; ///< axes over which gradients are summed once a step, or scattered
  sharding::AxisList split;   ///< of ep: those that share out the parameters (experts)
  bool trained = false; ///< there are gradients
  bool stored = false;  ///< as the plan says: all that may be trained; else whole
  /// Of a plan that stores by two levels of ZeRO, which of them this is.
  enum class Level : uint8_t { Only, Lower, Higher };
  Level level = Level::Only;

  /// How many ranks some of these groups have on a mesh; of `pending`, those that the sum to
  /// `state`, or `gradient`, leaves. StageCosts finds them.
  struct Ranks {
    int64_t storage = 1, gradient = 1, state = 1, pending = 1;
  };
  Ranks ranks;
  sharding::AxisList rest;

  struct Tables {
    explicit Tables(int units)
        : parameters(units), gradients(units), states(units), kept(units), update(units),
          elements(units), count(units), forward(units), backward(units) {}
    void finish();
    StageTable parameters, gradients, states, kept, update, elements, count;
    StageTable forward, backward; ///< of the parameters, what each pass reads
    struct Part {
      std::vector<int> units; ///< that read it
      int64_t bytes = 0;
      ValueId parameter = -1;
    };
    /// In the order of the parameters. Only where an allocator is asked for them, or their states
    /// may pass through the device.
    std::vector<Part> parts;
  };
  std::shared_ptr<Tables> tables; ///< the same however they are stored
  /// In how many calls a microbatch gathers and scatters them where programs are dtc's own. Classes
  /// that are split alike share these calls, as a block's parameters do.
  struct Calls {
    explicit Calls(int units) : forward(units), backward(units), scatters(units) {}
    StageTable forward, backward, scatters;
  };
  std::shared_ptr<Calls> calls;
  int64_t parameters(const StageRun &run) const { return of(&Tables::parameters, run); }
  int64_t gradients(const StageRun &run) const { return of(&Tables::gradients, run); }
  int64_t states(const StageRun &run) const { return of(&Tables::states, run); }
  int64_t kept(const StageRun &run) const { return of(&Tables::kept, run); }
  int64_t update(const StageRun &run) const { return of(&Tables::update, run); }
  int64_t elements(const StageRun &run) const { return of(&Tables::elements, run); }
  int64_t count(const StageRun &run) const { return of(&Tables::count, run); }
  int64_t read(const StageRun &run, bool backward) const {
    return of(backward ? &Tables::backward : &Tables::forward, run);
  }
  /// The bytes of each of these parameters.
  std::vector<int64_t> sizes(const StageRun &run) const;

private:
  int64_t of(StageTable Tables::*amount, const StageRun &run) const {
    return ((*tables).*amount)(run.begin, run.end);
  }
};

/// Bytes that a rank has beside what it keeps, one after the other. They come when the model is
/// made (beyond what is kept later on), for the norm of the gradients, in the update and after it.
struct BetweenCalls {
  int64_t initial = 0, norm = 0, update = 0, after = 0;
  int64_t most() const { return std::max({initial, norm, update, after}); }
  BetweenCalls &operator+=(const BetweenCalls &other) {
    initial += other.initial;
    norm += other.norm;
    update += other.update;
    after += other.after;
    return *this;
  }
};

/// Classes that are exchanged by the same calls are counted with the first of them: this is it.
inline const WeightClass &firstOfCalls(const std::vector<WeightClass> &classes,
                                       const WeightClass &weights) {
  return *std::find_if(classes.begin(), classes.end(),
                       [&](const WeightClass &each) { return each.calls == weights.calls; });
}

/// The parameters of a model, and the data of a step, by the units that read them.
struct Weights {
  std::vector<WeightClass> classes;
  /// A trained parameter that several units read.
  struct Shared {
    std::vector<int> units; ///< ascending
    size_t weights = 0;     ///< index of its class
    ParameterBytes bytes;
  };
  std::vector<Shared> shared;
  /// Of a plan that stores by two levels of ZeRO, which blocks have the higher one.
  std::vector<bool> higherBlocks;

  /// What is there for a whole step on ranks that have one of these units.
  struct Data {
    enum class Lifetime : uint8_t {
      Microbatch, ///< inputs, targets and outputs: of each microbatch
      Step,
      Buffer ///< of the model
    };
    std::vector<int> units; ///< ascending
    Lifetime lifetime = Lifetime::Step;
    int64_t bytes = 0;
  };
  /// Inputs, targets, scalars and buffers where they are read, and outputs where they are made.
  std::vector<Data> data;
};

/// The parameters of an execution by where they are read, and its data.
Weights findWeights(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
                    const RankExecution &execution, const UnitCosts &unitCosts,
                    const Software &software);

/// The axes of a list that aren't in another.
sharding::AxisList without(const sharding::AxisList &axes, const sharding::AxisList &taken);

/// Groups that sum up single numbers once a step. The ranks that have samples count the valid
/// targets. All ranks sum up the step vector (loss, norm, what isn't finite).
std::vector<sharding::AxisList> scalarSums(const Problem &problem, const sharding::Mesh &mesh);
constexpr int64_t kStepVectorBytes = 16;

/// Whether what is sent between stages keeps the sender from computing.
bool blockingSends(const Software &software, ScheduleKind schedule);

/// The stages of a rank.
std::vector<StageRun> runsOf(const std::vector<StageRun> &stages,
                             const schedule::Placement &placement, int64_t rank);
/// The pipeline rank whose stage has a unit.
int64_t rankOf(int unit, const std::vector<StageRun> &stages, const schedule::Placement &placement);

/// The costs of any run of units as a stage, on a rank of given degrees.
class StageCosts {
public:
  using Runs = std::vector<StageRun>; ///< the stages of a rank, or of a pipeline

  /// `mesh`: of one stage, with all its axes. `scalarSums`: groups that sum up
  /// single numbers once a step. `times`: of the model; null: its own.
  StageCosts(const CostModel &model, const Degrees &degrees,
             const sharding::Mesh &mesh, const UnitCosts &unitCosts, Weights weights,
             const std::vector<Block> &blocks, std::vector<sharding::AxisList> scalarSums,
             std::shared_ptr<CollectiveTimes> times = nullptr);

  /// What stages cost whose first blocks are recomputed; must outlive this.
  void setRecomputed(const UnitCosts &all) { recomputed = &all; }

  simulate::StageCost stage(const StageRun &run) const;
  /// Of these the seconds alone, as bytes take longer to find.
  simulate::StageCost stageSeconds(const StageRun &run) const;
  /// The most that a pass has of whole parameters and gradients beside those that are stored.
  double transientBytes(const StageRun &run) const;
  /// What its microbatches keep, and the most that one takes, as in UnitCosts.
  int64_t savedBytes(const StageRun &run) const;
  int64_t peakBytes(const StageRun &run) const;
  /// What microbatches take that are held at once, and the call that runs.
  struct InFlight {
    int32_t microbatches = 1;
    bool splits = false; ///< the backward pass comes in two calls
    auto operator<=>(const InFlight &) const = default;
  };
  int64_t heldBytes(const StageRun &run, const InFlight &held) const;
  /// The bytes that each further microbatch in flight adds.
  int64_t slotBytes(const StageRun &run, bool splits) const;
  /// Whether each call has places of its own in memory.
  bool placesCalls() const;
  /// StageCost::waitingBytes: what a slot has beside savedBytes, if the backward pass comes in two
  /// calls.
  int64_t waitingBytes(const StageRun &run) const;
  /// Of what a stage hands over to the next one of its rank, the bytes that either has in a slot
  /// anyway. What both have counts twice.
  int64_t handedOverInSlots(const StageRun &before, const StageRun &after) const;
  /// What a microbatch holds between these two calls.
  int64_t keptBytes(const StageRun &run) const;
  int64_t temporaryBytes(StageCall call, const StageRun &run) const;
  /// All that recomputing adds to the work of its calls.
  simulate::Work recomputation(const StageRun &run) const;
  /// Of what passes from stage to stage, the share that a rank sends itself.
  double sentShare() const;
  /// At the cut before a unit, from a pipeline rank to that of the next stage.
  simulate::Boundary boundary(int unit, int64_t from, int64_t to) const;
  /// Without what `tiedSeconds` says.
  simulate::RankCost rank(const Runs &runs) const;
  /// All of a pipeline, by stage, of which `placement` says where they lie.
  simulate::Costs costs(const Runs &stages, const schedule::Placement &placement) const;

  /// Gradients of a rank, by the first and the last rank that hold copies of the same parameters.
  /// The first stage reads an embedding as such, and the last one reads it as the head.
  struct Tied {
    int64_t first = 0, last = 0;
    double bytes = 0;
  };
  std::vector<Tied> tied(const Runs &stages, const schedule::Placement &placement,
                         int64_t rank) const;
  /// Their sums, between these two.
  double tiedSeconds(const Runs &stages, const schedule::Placement &placement, int64_t rank) const;
  /// The groups of devices that make these sums, in which the rank takes part. Not counted is that
  /// of all devices, which every step has. Nothing is known of other programs' groups: they have 0.
  /// `areApart`: stages have meshes of their own, so that a group has all of their devices.
  int64_t tiedGroups(const Runs &stages, const schedule::Placement &placement, int64_t rank,
                     bool areApart) const;
  /// What a rank keeps from step to step, and a step's data: all but activations.
  MemoryUse staticBytes(std::span<const StageRun> runs) const;
  void countSharedOnce(std::span<const StageRun> runs, MemoryUse &use) const;
  /// What a rank has in its host's memory: offloaded states, and temporaries of their update.
  double hostBytes(const Runs &runs) const;
  /// What there is beyond it before a step's calls and after them.
  BetweenCalls betweenCalls(std::span<const StageRun> runs) const;
  /// The same, and what its calls gather and scatter, as requests to an allocator;
  /// without what `StageAllocations` has.
  RankRequests requests(const Runs &runs) const;
  /// Of the parameters that a rank stores.
  int64_t parameterElements(const StageRun &run) const;

  /// Communication that parameters and gradients need.
  struct Exchange {
    sharding::StepKind kind = sharding::StepKind::AllReduce;
    const sharding::AxisList *axes = nullptr; ///< null: there is no group
    double bytes = 0, seconds = 0; ///< of all calls
    double calls = 0;
  };
  /// Few, one after the other.
  template <typename T> struct Few {
    const T *begin() const { return list.data(); }
    const T *end() const { return list.data() + count; }
    void add(const T &each) { list[count++] = each; }
    std::array<T, 2> list;
    size_t count = 0;
  };
  using Reductions = Few<Exchange>;
  /// Before the forward and again before the backward pass; within each
  /// backward pass; once a step before, and after the update. What several classes exchange by
  /// common calls is that of the first one.
  Exchange gather(const WeightClass &weights, const StageRun &run, bool backward) const;
  Exchange scatter(const WeightClass &weights, const StageRun &run) const;
  Reductions reductions(const WeightClass &weights, const StageRun &run) const;
  Exchange regather(const WeightClass &weights, const StageRun &run) const;
  const std::vector<WeightClass> &getClasses() const { return classes; }

  const CostModel &getModel() const { return model; }
  /// What a device receives over the cut before a unit, each pass.
  double forwardBytes(int unit) const { return double(unitCosts.forwardBytes(unit)); }
  double backwardBytes(int unit) const { return double(unitCosts.backwardBytes(unit)); }
  /// Of computation, and of what data-parallel ranks exchange beside it.
  OverlapSlowdown slowdown() const;
  bool blockingSends() const {
    return plan::blockingSends(model.getCluster().software, degrees.schedule);
  }

private:
  /// What parameters and gradients add to a stage's calls, and a rank that has no other stage.
  struct Parameters {
    struct Class {
      simulate::Work gathers[2], scatters; ///< of each pass; forward, then backward
      double accumulation = 0;
    };
    std::vector<Class> classes;
    double reductionSeconds = 0, reductionOverlap = 0;
    double forwardTransient = 0, backwardTransient = 0;
    double waitingShare = 0; ///< of a block's gradients, until they are added up
    simulate::RankCost rank;
  };
  int findExchanged() const;
  const Parameters &parametersOf(StageRun run) const;
  void findParameters(const StageRun &run, Parameters &result) const;
  simulate::RankCost sumOf(std::span<const StageRun> runs) const;
  simulate::Work launched(double all, double exchanged, double host) const;
  Exchange exchange(sharding::StepKind kind, const sharding::AxisList &axes, double bytes,
                    double pieces) const;
  bool ownersBroadcast(const WeightClass &weights) const;
  bool reducesHalfSums(const WeightClass &weights, const StageRun &run) const;
  /// What is exchanged once a step, before it is divided into calls.
  struct Once {
    sharding::StepKind kind = sharding::StepKind::AllReduce;
    const sharding::AxisList *axes = nullptr;
    enum class Calls : uint8_t {
      One,
      Owners,      ///< one for each rank
      Buckets,     ///< of a good size
      GradientSums ///< as the last backward pass makes them
    };
    Calls calls = Calls::Buckets;
    double bytes = 0;
    int64_t count = 0; ///< of parameters
    bool isLike(const Once &other) const {
      return kind == other.kind && *axes == *other.axes && calls == other.calls;
    }
  };
  Few<Once> sumsOf(const WeightClass &weights, const StageRun &run) const;
  Few<Once> gathersOnce(const WeightClass &weights, const StageRun &run) const;
  Exchange inCalls(Once once, const WeightClass &weights, const StageRun &run,
                   Few<Once> (StageCosts::*of)(const WeightClass &, const StageRun &) const) const;
  double lastShare(const WeightClass &weights, const StageRun &run) const;
  void countBlocks(const std::vector<Block> &blocks, const std::vector<bool> &higher);
  double pieces(WeightClass::Level level, const StageRun &run) const;
  double piecesWith(sharding::AxisList WeightClass::*axes, const StageRun &run) const;
  Exchange byBlock(sharding::StepKind kind, const WeightClass &weights, const StageRun &run,
                   bool backward) const;
  double gathersOf(const StageRun &run, bool backward) const;
  double scattersOf(const StageRun &run) const;
  double accumulation(const WeightClass &weights, const StageRun &run) const;
  bool overlaps() const;
  int64_t bucketBytes(std::span<const StageRun> runs) const;
  int64_t residentBuckets(std::span<const StageRun> runs) const;
  int64_t dataBytes(std::span<const StageRun> runs, bool buffers) const;
  GradientLife gradientLife() const;
  bool isFlat(const WeightClass &weights) const;
  BetweenCalls betweenCalls(const WeightClass &weights, const StageRun &run) const;
  int64_t passingStates(std::span<const StageRun> runs) const;
  int64_t splitUpdates(std::span<const StageRun> runs) const;
  void addExchanges(int unit, RankRequests &to) const;
  void addCasts(const Runs &runs, RankRequests &to) const;
  void addRequests(const WeightClass &weights, const StageRun &run, RankRequests &to) const;

  const CostModel &model;
  Degrees degrees;
  const sharding::Mesh &mesh;
  const UnitCosts &unitCosts;
  const UnitCosts *recomputed = nullptr;
  std::vector<WeightClass> classes;
  int exchanged = 0; ///< by findExchanged
  std::vector<Weights::Shared> shared;
  std::vector<Weights::Data> data;
  std::vector<sharding::AxisList> scalarSums;
  std::vector<int> blocksBefore; ///< by unit: how many blocks begin before it
  /// How many of these have the higher level; empty: stages say it.
  std::vector<int> higherBefore;
  /// By begin and end; once for stages of as many of the repeated units.
  mutable FlatMap<Parameters> known;
  /// Ranks that exchange.
  struct Communicator {
    sharding::StepKind kind;
    sharding::AxisList axes;
    CollectiveTimes::Communicator *times;
  };
  std::shared_ptr<CollectiveTimes> times;
  mutable std::deque<Communicator> groups; ///< few
};

} // namespace dtc::plan
