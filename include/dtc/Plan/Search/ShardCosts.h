// What one data-parallel rank's share of a microbatch costs under tensor, expert and context
// parallelism. It is solved once for each (tp, ep, cp, samples), whatever the pipeline and the
// number of data-parallel ranks around it.
//
// Take a GPT of 16 layers of width 2048 on 8 H100s, in microbatches of 4 samples a rank:
//
//   tp  forward   backward   serves
//   1   14.1 ms   28.1 ms    dp=8, dp=4 pp=2, dp=2 pp=4, each with any level of ZeRO
//   2    9.0 ms   16.7 ms    dp=4, dp=2 pp=2, ...
//   4    6.2 ms   10.5 ms    dp=2, pp=2
//
// So three problems are solved for all of them. The times are cut into units (UnitCosts.h). Stages
// of pipelines are made of these.
#pragma once

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Predict/Recomputation.h"
#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Plan/Search/Search.h"
#include "dtc/Plan/Shard/SolverStore.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace dtc::plan {

/// What a solution of the sharding is asked for beside speed.
struct ShardVariant {
  std::optional<bool> sequenceParallel;
  double secondsPerByte = 1e-18; ///< among equally fast plans the smaller one is better
  auto operator<=>(const ShardVariant &) const = default;
};

/// Microbatches for which shardings are solved: those of a plan without a
/// pipeline, where what is done once a step weighs most.
int64_t weighedMicrobatches(const Problem &problem, const Degrees &degrees, int64_t devices);

/// How a folded model is part of a whole one.
struct FoldedModel {
  const Folding *folding = nullptr;
  const std::vector<Block> *blocks = nullptr; ///< of the whole model
};

/// One solution of the sharding, with the costs of its units.
class ShardCosts {
public:
  /// `folded`: all but the results is of a folded model.
  ShardCosts(const Problem &problem, const ProblemFacts &facts, const CostModel &model,
             const std::vector<Block> &blocks, Plan plan, const Workspace *workspace,
             std::optional<FoldedModel> folded = std::nullopt);
  /// The same shardings on devices of another type, which must outlive this as `other` must.
  ShardCosts(const ShardCosts &other, const CostModel &model)
      : ShardCosts(other.problem, other.facts, model, other.blocks, other.plan, other.workspace,
                   other.folded) {}
  /// The same shardings with the other value of Degrees::regather, on which they don't depend.
  std::unique_ptr<ShardCosts> withOtherRegather() const;

  /// Whether there are costs of these units, without recomputation and with it:
  /// always, unless the model is folded.
  bool fits(Recompute recompute, const std::vector<OpId> &cuts) const;
  /// Units between `cuts`, all blocks recomputed alike.
  const UnitCosts &unitCosts(Recompute recompute, const std::vector<OpId> &cuts) const {
    return *findUnitCosts(recompute, cuts);
  }
  /// Parameters, stored whole; axes are those of the plan.
  const Weights &weights(const std::vector<OpId> &cuts) const;
  const Problem &getProblem() const { return problem; }
  const ProblemFacts &getFacts() const { return facts; }
  const Plan &getPlan() const { return plan; }

private:
  /// What there is between some cuts.
  struct Units {
    std::vector<OpId> cuts;
    std::map<Recompute, std::unique_ptr<UnitCosts>> allUnitCosts; ///< null: none
    std::unique_ptr<Weights> weights;
  };
  Units &unitsOf(const std::vector<OpId> &cuts) const;
  const UnitCosts *findUnitCosts(Recompute recompute, const std::vector<OpId> &cuts) const;
  std::unique_ptr<UnitCosts> makeUnitCosts(Recompute recompute,
                                           const std::vector<OpId> &cuts) const;

  const Problem &problem;
  const ProblemFacts &facts;
  const CostModel &model;
  const std::vector<Block> &blocks;
  const Workspace *workspace;
  Plan plan;
  RankExecution execution;
  std::optional<FoldedModel> folded;
  mutable std::deque<Units> units; ///< few: there are as many as numbers of stages, at most
};

/// All solutions that a search needs, each solved when it is first asked for. Models of many equal
/// layers are solved folded, where that is known to find the best. Several threads at a time may
/// ask for batches, the libraries of other devices, and for solutions (solveFolded, solveWhole).
/// All else, `get` and what it returns above all, belongs to one thread. `solveAhead` has threads
/// of its own, each of which has other entries.
class ShardLibrary {
public:
  ShardLibrary(const Problem &problem, const Cluster &cluster, const SearchOptions &options);

  /// For a pipeline cut at some of `cuts`. Null where there is no such sharding;
  /// `error` then says why.
  const ShardCosts *get(const Degrees &degrees, const ShardVariant &variant,
                        const std::vector<OpId> &cuts, std::string &error);
  struct Asked {
    Degrees degrees;
    const std::vector<OpId> *cuts = nullptr;
  };
  /// Solves what `get` will be asked for, and finds unit costs with the degrees' recomputation,
  /// on as many threads as there are processors. What is found doesn't depend on them.
  void solveAhead(const std::vector<Asked> &list, const ShardVariant &variant);
  /// Of shardings that are the same for all types of devices, as these of them cost (on).
  const ShardCosts *getFor(ShardLibrary &devices, const Degrees &degrees,
                           const ShardVariant &variant, const std::vector<OpId> &cuts,
                           std::string &error);
  /// The problem with that many samples in a call, sequences split among so many ranks.
  struct Batch {
    Problem problem;
    std::unique_ptr<ProblemFacts> facts;
    std::string error;
    mutable std::shared_ptr<const OpBundles> bundles; ///< null: nothing was solved (taskOf)
  };
  const Batch &batchOf(int64_t samples, int64_t contextRanks);
  /// The same of the folded model, if there is one.
  const Batch &foldedBatchOf(int64_t samples, int64_t contextRanks);
  Result<Problem> problemOf(int64_t samples) const;
  /// Of the folded model; nullopt where the whole one has to be solved.
  std::optional<Result<Solution>> solveFolded(int64_t samples, const Degrees &degrees,
                                              const SolverOptions &options);
  /// Of the whole model, in any case.
  Result<Solution> solveWhole(const Degrees &degrees, const SolverOptions &options);
  /// Of this batch of the whole model, without folding it.
  Result<Solution> solveUnfolded(const Batch &batch, const Degrees &degrees,
                                 const SolverOptions &options);
  const Folding *getFolding() const { return folding ? &*folding : nullptr; }
  const Workspace *getWorkspace() const { return workspace.get(); }
  const Workspace *getFoldedWorkspace() const { return foldedWorkspace.get(); }
  /// The same on some devices of the cluster, as if all were like them.
  ShardLibrary &on(DeviceRange range);
  const Cluster &getCluster() const { return cluster; }
  const std::vector<Block> &getBlocks() const { return blocks; }
  /// How many shardings were solved.
  int64_t solves() const;
  /// How many networks were built for these, and for complete plans.
  int64_t networks() const { return solvers.networks(); }
  const CostModel &getModel() const { return model; }
  const ProblemFacts &getFacts() const { return facts; }
  /// Whether attention keeps more than its results for the backward pass.
  bool keepsInsideOps() const;

private:
  SolverStore::Task taskOf(const Batch &batch, const Folding *of) const;
  Batch makeBatch(const Problem &of, const ProblemFacts &itsFacts, int64_t samples,
                  int64_t contextRanks) const;
  const Problem &problem;
  ProblemFacts facts;
  const Cluster &cluster;
  int64_t devices;
  std::unique_ptr<Workspace> workspace; ///< null: there is none
  CostModel model;
  std::vector<Block> blocks;
  mutable std::optional<bool> keepsAnyInside; ///< found when asked for
  std::optional<Folding> folding;
  std::unique_ptr<Workspace> foldedWorkspace;
  std::optional<ProblemFacts> foldedFacts;
  mutable std::mutex mutex; ///< of batches and libraries of other devices
  /// By samples and cp.
  std::map<std::pair<int64_t, int64_t>, Batch> batches, foldedBatches;
  SolverStore solvers;
  /// tp, its weights, what cp exchanges, ep, cp, and samples of a rank. Then, how many ranks of
  /// these axes lie below one switch
  using Key = std::tuple<int64_t, TensorWeights, ContextExchange, int64_t, int64_t, int64_t,
                         std::vector<int64_t>, ShardVariant>;
  /// Of one value of Degrees::regather: one or both; neither where there is an error.
  struct Priced {
    std::unique_ptr<ShardCosts> folded, whole;
  };
  struct Solved {
    bool tried = false;
    Priced kept, regathered;
    std::string error;
    Priced &of(const Degrees &degrees) { return degrees.regather ? regathered : kept; }
    void share(const Degrees &degrees);
  };
  struct Request {
    Key key;
    Degrees inside; ///< the axes that shardings are solved for
    SolverOptions options;
  };
  Request requestOf(const Degrees &degrees, const ShardVariant &variant) const;
  const ShardCosts *costsOf(Solved &entry, const Request &request, Recompute recompute,
                            const std::vector<OpId> &cuts);
  void solveOnce(Solved &entry, const Request &request);
  void addWhole(Solved &entry, const Degrees &degrees, const SolverOptions &options);
  const ShardCosts &priced(const ShardCosts &shared);
  std::map<Key, Solved> solved;
  std::vector<std::pair<std::unique_ptr<Cluster>, std::unique_ptr<ShardLibrary>>> elsewhere;
  std::map<std::pair<int64_t, int64_t>, ShardLibrary *> byRange;
  /// Those of the whole cluster's shardings, on the devices that this is for.
  std::map<const ShardCosts *, std::unique_ptr<ShardCosts>> fromWhole;
};

/// The plan's entries for recomputing all blocks alike.
std::vector<BlockRecompute> recomputeAll(const std::vector<Block> &blocks, Recompute kind);

} // namespace dtc::plan
