// From a profile to what the simulator asks for: seconds and bytes of pipeline
// stages, with parameters stored as ZeRO has it.
//
// A parameter's local part (what tensor parallelism leaves to a rank) may be
// stored split over `storage` axes (gathered for each pass, ZeRO-3), its
// gradients over `gradient` axes (scattered each microbatch, ZeRO-2) and its
// optimizer state over `state` axes (ZeRO-1): Rajbhandari et al., ZeRO, SC 2020.
// Gathers and scatters run beside the computation of other blocks, as in FSDP
// (Zhao et al., PyTorch FSDP, VLDB 2023), except the first gather and the last
// scatter of a pass.
#pragma once

#include "AllocatorReplay.h"
#include "Profile.h"

#include "dtc/Plan/Blocks.h"
#include "dtc/Plan/Search.h"
#include "dtc/Simulate/Simulate.h"

#include <memory>

namespace dtc::plan {

/// Parameters that are stored and summed up alike; bytes of one rank's local
/// part, by stage.
struct WeightClass {
  sharding::AxisList storage, gradient, state;
  sharding::AxisList pending; ///< axes over which gradients are summed once a step, or scattered
  sharding::AxisList split;   ///< of ep: those that share out the parameters (experts)
  bool trained = false;

  struct Tables {
    StageTable parameters, gradients, states, kept, update, elements, count;
  };
  std::shared_ptr<Tables> tables; ///< the same however they are stored
  int64_t parameters(int a, int b) const { return tables->parameters(a, b); }
  int64_t gradients(int a, int b) const { return tables->gradients(a, b); }
  int64_t states(int a, int b) const { return tables->states(a, b); }
  int64_t kept(int a, int b) const { return tables->kept(a, b); }
  int64_t update(int a, int b) const { return tables->update(a, b); }
  int64_t elements(int a, int b) const { return tables->elements(a, b); }
  int64_t count(int a, int b) const { return tables->count(a, b); }
};

struct Weights {
  std::vector<WeightClass> classes;
  /// By trained parameter that several units read: those, and the bytes of its gradient.
  std::vector<std::pair<std::vector<int>, int64_t>> shared;
};

/// The parameters of an execution by where they are read.
Weights findWeights(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
                    const Execution &execution, const Profile &profile,
                    const Software &software);

/// The axes of a list that aren't in another.
sharding::AxisList without(const sharding::AxisList &axes, const sharding::AxisList &taken);

/// Groups that sum up single numbers once a step: the norm of gradients that are
/// split; and with it the valid targets.
std::vector<sharding::AxisList> normSums(const Problem &problem, const ProblemFacts &facts,
                                         const Plan &plan);
std::vector<sharding::AxisList> scalarSums(const Problem &problem, const ProblemFacts &facts,
                                           const Plan &plan);

class StageCosts {
public:
  /// Runs of units [a, b): the stages of a rank.
  using Runs = std::vector<std::pair<int, int>>;

  /// `mesh`: of one stage, with all its axes. `scalarSums`: groups that sum up
  /// single numbers once a step.
  StageCosts(const Problem &problem, const CostModel &model, const Degrees &degrees,
             const sharding::Mesh &mesh, const Profile &profile, Weights weights,
             const std::vector<Block> &blocks, std::vector<sharding::AxisList> scalarSums);

  /// What stages cost whose first blocks are recomputed; must outlive this.
  void setRecomputed(const Profile &all) { recomputed = &all; }

  /// Of the units [a, b), of which those before `kept` are recomputed.
  simulate::StageCost stage(int a, int b, int kept) const;
  simulate::StageCost stage(int a, int b) const { return stage(a, b, a); }
  /// What its microbatches keep, and the most that one takes, as in Profile.
  int64_t savedBytes(int a, int b, int kept) const;
  int64_t peakBytes(int a, int b, int kept) const;
  /// All that recomputing adds to the work of its calls.
  simulate::Work recomputation(int a, int b, int kept) const;
  /// Of what passes from stage to stage, the share that a rank sends itself.
  double sentShare() const;
  /// At the cut before a unit, between stage `index` and the next.
  simulate::Boundary boundary(int unit, int64_t index) const;
  /// `tiedBytes`: of gradients that other ranks sum up, too.
  simulate::RankCost rank(const Runs &runs, double tiedBytes) const;
  /// All of a pipeline whose stage i is the units [cuts[i], cuts[i + 1]), of which
  /// those before kept[i], if there is one, are recomputed.
  simulate::Costs costs(const std::vector<int> &cuts, const std::vector<int> &kept = {}) const;

  Runs runsOf(const std::vector<int> &cuts, int64_t rank) const;
  double tiedBytes(const std::vector<int> &cuts, int64_t rank) const;
  /// Their sum with the stages that hold copies of the same parameters.
  double tiedSeconds(double bytes) const;
  /// What a rank keeps from step to step, data and activations aside.
  MemoryUse staticBytes(const Runs &runs) const;
  /// What the update takes beyond it.
  int64_t updateBytes(const Runs &runs) const;
  /// The same, and what its calls gather and scatter, as requests to an allocator;
  /// without what `StageAllocations` has.
  RankRequests requests(const Runs &runs) const;
  /// Of the parameters that a rank stores.
  int64_t parameterElements(int a, int b) const;

  /// Communication that parameters and gradients need.
  struct Exchange {
    sharding::StepKind kind = sharding::StepKind::AllReduce;
    sharding::AxisList axes;
    double bytes = 0, seconds = 0; ///< of all calls
    double calls = 0;
  };
  /// Before the forward and again before the backward pass; within each
  /// backward pass; once a step before, and after the update.
  Exchange gather(const WeightClass &weights, int a, int b) const;
  Exchange scatter(const WeightClass &weights, int a, int b) const;
  std::vector<Exchange> reductions(const WeightClass &weights, int a, int b) const;
  Exchange regather(const WeightClass &weights, int a, int b) const;
  const std::vector<WeightClass> &getClasses() const { return classes; }

  const CostModel &getModel() const { return model; }
  /// What a device receives over the cut before a unit, each pass.
  double forwardBytes(int unit) const { return double(profile.forwardBytes(unit)); }
  double backwardBytes(int unit) const { return double(profile.backwardBytes(unit)); }
  /// Of computation, and of what data-parallel ranks exchange beside it.
  Slowdown slowdown() const;
  bool blockingSends() const {
    const Software &software = model.getCluster().software;
    bool inTurns = degrees.schedule == ScheduleKind::Interleaved ||
                   degrees.schedule == ScheduleKind::ZeroBubble;
    return !software.overlapCommunication && !(software.overlapsSends && inTurns);
  }

private:
  simulate::Work launched(double all, double exchanged, double host) const;
  Exchange exchange(sharding::StepKind kind, sharding::AxisList axes, double bytes,
                    double pieces) const;
  double pieces(int a, int b) const;
  bool ownersBroadcast(const WeightClass &weights) const;
  double lastShare(const WeightClass &weights, int a, int b) const;
  double accumulation(const WeightClass &weights, int a, int b) const;
  bool overlaps() const;
  int64_t bucketBytes(const Runs &runs) const;
  void addExchanges(int unit, RankRequests &to) const;
  void addRequests(const WeightClass &weights, int a, int b, RankRequests &to) const;

  const CostModel &model;
  Degrees degrees;
  const sharding::Mesh &mesh;
  const Profile &profile;
  int64_t pipelineStride; ///< between the devices of neighbouring stages
  const Profile *recomputed = nullptr;
  std::vector<WeightClass> classes;
  std::vector<std::pair<std::vector<int>, int64_t>> shared;
  std::vector<sharding::AxisList> scalarSums;
  std::vector<int> blocksBefore; ///< by unit: how many blocks begin before it
  bool hasAccumulators = false;
  mutable std::map<std::tuple<sharding::StepKind, sharding::AxisList, double>, double>
      collectiveTimes;
};

} // namespace dtc::plan
