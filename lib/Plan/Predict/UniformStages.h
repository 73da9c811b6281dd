// A plan carried out on one mesh and one type of device. It says what its stages cost that are of
// this kind, and what their ranks hold and exchange.
//
// All stages of a plan are of one kind, unless the cluster has several types of devices
// or the plan several meshes (StageDevices.h).
#pragma once

#include "StageAllocations.h"

#include "dtc/Plan/Predict/Predict.h"
#include "dtc/Plan/Predict/StageCosts.h"

namespace dtc::plan {

class UniformStages {
public:
  /// `plan`: with one mesh. Both it and the cluster must outlive this.
  UniformStages(const PlannedModel &planned, const Plan &plan, const Cluster &cluster,
            int64_t devices, const Workspace *workspace);

  /// False where a folded model doesn't tell what the whole one does.
  bool start();
  const StageCosts &costs() const { return *stageCosts; }
  const CostModel &getModel() const { return model; }
  const StageCosts::Runs &getStages() const { return stages; }
  /// The stages of a pipeline rank.
  StageCosts::Runs stagesOf(int64_t rank) const { return runsOf(stages, placement, rank); }

  // Communication of a pipeline rank, in one step.
  void addMicrobatchCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const;
  void addStorageCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const;
  void addScalarCollectives(std::vector<CollectiveUse> &uses) const;

  /// What a caching allocator holds of a rank's device beyond `use`, for its calls of a
  /// step (AllocatorReplay.h); 0 for other programs.
  int64_t cachedBytes(int64_t rank, const std::vector<schedule::Call> &calls, const MemoryUse &use,
                      MemoryDetail detail) const;

private:
  void recompute();
  void add(std::vector<CollectiveUse> &uses, const StageCosts::Exchange &exchange,
           double times) const;

  const PlannedModel planned;
  const Problem &problem;
  const Plan &plan;
  const ProblemFacts &facts;
  schedule::Placement placement;
  CostModel model;
  RankExecution execution;
  std::unique_ptr<UnitCosts> unitCosts;
  std::optional<StageCosts> stageCosts;
  std::optional<AllocationSequence> allocations; ///< for an allocator that caches
  StageCosts::Runs stages;
};

/// Adds a use to those of the same kind and size.
void merge(std::vector<CollectiveUse> &uses, const CollectiveUse &use);

} // namespace dtc::plan
