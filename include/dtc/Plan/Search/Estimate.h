// What degrees would cost at best: cuts stages for them and simulates a step,
// with figures of one data-parallel rank that many degrees share.
//
// A search asks for the lower bound first, and estimates only degrees whose bound is below the best
// step so far. A GPT of 16 layers of width 2048, 64 samples a step on 8 H100s:
//
//   degrees            bound     estimate   memory
//   dp=8                84.5 ms  101.3 ms   20.3 of 84.1 GB
//   dp=4 pp=2 zero=1    96.5 ms  117.1 ms    8.4 of 83.8 GB   slower than dp=8
//   dp=4 tp=2          102.8 ms                               not estimated: 102.8 > 101.3
//   dp=2 tp=4          133.1 ms                               not estimated, either
//
// The bound leaves out the sums of gradients, the update, and a part of a pipeline's bubble.
#pragma once

#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Trains.h"
#include "dtc/Plan/Predict/StepEstimates.h"
#include "dtc/Plan/Search/RankStages.h"
#include "dtc/Plan/Search/Search.h"

#include <algorithm>
#include <limits>
#include <set>

namespace dtc::plan {

/// Degrees with their stages and what a step of them takes.
struct Estimate {
  Degrees degrees;
  ShardVariant variant;
  std::vector<OpId> cuts; ///< by stage its first op, then one past the last
  std::vector<BlockRecompute> recompute;
  double seconds = 0;     ///< of a step
  /// Bytes of the rank that fills its device most, and what that has for tensors.
  double memory = 0, capacity = 0;
  HostUse host;
  bool fits() const { return shortBytes() <= 0; }
  /// The bytes that a rank lacks, on its device or on its part of the host; negative where some are
  /// left.
  double shortBytes() const {
    double ofHost = host.shortBytes() / double(std::max<int64_t>(1, host.ranks));
    return ofHost > 0 ? std::max(ofHost, memory - capacity) : memory - capacity;
  }
  double perSample() const {
    return seconds / double(degrees.samples());
  }
};

struct EstimateOptions {
  double limit = 0;        ///< seconds of a step that aren't worth more effort
  bool anyMemory = false;  ///< finds also what doesn't fit
  /// Degrees::recompute is for as many blocks as memory asks for, not for all.
  bool someBlocks = false;
  /// Bytes that a rank is short of, with anyMemory, that aren't worth more effort.
  double mostShort = std::numeric_limits<double>::infinity();
  double memoryShare = 1; ///< of each rank's memory, that it may take
};

class Estimator {
public:
  Estimator(ShardLibrary &library, const Problem &problem, const ProblemFacts &facts)
      : library(library), problem(problem), facts(facts), steps(plan::trains(problem)) {}

  enum class Outcome : uint8_t {
    Found,
    TooSlow,   ///< takes longer than the limit, whatever the memory
    TooLarge,  ///< doesn't fit
    Impossible ///< the degrees can't be
  };

  /// Finds what `lowerBound` will need of these degrees, on all processors.
  void lookAhead(const std::vector<Degrees> &list, const ShardVariant &variant);
  /// No step of these degrees takes less. `error`: why there is none.
  double lowerBound(const Degrees &degrees, const ShardVariant &variant, std::string &error);
  Outcome estimate(const Degrees &degrees, const ShardVariant &variant,
                   const EstimateOptions &options, Estimate &result, std::string &error);

  /// False where these degrees, which have a stage on each rank, need more memory than
  /// there is, however slow they are. `someBlocks` as in EstimateOptions. `share`: as if each rank
  /// had so many times its memory.
  bool mayFit(const Degrees &degrees, const ShardVariant &variant, bool someBlocks,
              double share = 1);

private:
  class Pipelines;
  const std::vector<OpId> &cutsFor(const Degrees &degrees);
  std::optional<std::vector<int>> fixedCuts(const UnitCosts &unitCosts, int stages) const;
  /// Pipeline ranks on the same type of device with the same mesh.
  struct RankClass {
    ShardLibrary *devices = nullptr; ///< all that is known of those
    Degrees degrees; ///< as if all were like them
    size_t group = 0;
    int64_t ranks = 0;
    bool ownShardings = false; ///< else those that all classes share
  };
  struct RankClasses {
    std::vector<RankClass> list; ///< one where all ranks are alike
    std::vector<size_t> byRank;
  };
  RankClasses rankClassesOf(const Degrees &degrees);
  using Ranks = std::vector<std::shared_ptr<RankStages>>; ///< of a pipeline
  /// Nothing where there are none.
  Ranks ranksOf(const Degrees &degrees, const ShardVariant &variant,
                const EstimateOptions &options, std::string &error);
  const ShardCosts *shardOf(const RankClass &rankClass, const ShardVariant &variant,
                            std::string &error);
  double balancedFloor(const RankClasses &classes,
                       const std::vector<const UnitCosts *> &allUnitCosts) const;

  ShardLibrary &library;
  const Problem &problem;
  const ProblemFacts &facts;
  std::set<std::vector<OpId>> cutSets;
  std::map<int64_t, const std::vector<OpId> *> cutsByStages; ///< of these
  RankStagesStore rankStages;
  StepEstimates steps;
};

} // namespace dtc::plan
