#include "dtc/Plan/Search/Estimate.h"

#include "ChunkRecomputation.h"
#include "CutPositions.h"
#include "PipelineFloor.h"

#include "dtc/Plan/Predict/HostMemory.h"
#include "dtc/Plan/Predict/StageDevices.h"
#include "dtc/Plan/Shard/ShardingSolver.h"
#include "dtc/Plan/Solve/StageCuts.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

using sharding::AxisList;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<OpId> &Estimator::cutsFor(const Degrees &degrees) {
  int64_t stages = degrees.pp * degrees.chunks;
  auto [it, isNew] = cutsByStages.try_emplace(stages);
  if (isNew)
    it->second = &*cutSets.insert(cutPositions(problem, facts, library.getBlocks(), stages)).first;
  return *it->second;
}

Estimator::RankClasses Estimator::rankClassesOf(const Degrees &degrees) {
  RankClasses classes;
  classes.byRank.assign(degrees.pp, 0);
  if (degrees.pp == 1 || (library.getCluster().others.empty() && degrees.groups.empty())) {
    classes.list.push_back({&library, degrees, 0, degrees.pp});
    return classes;
  }
  std::vector<DeviceRange> ranges = neighbouringDevices(degrees);
  for (int64_t rank = 0; rank < degrees.pp; ++rank) {
    ShardLibrary *on = &library.on(ranges[rank]);
    size_t group = groupOf(degrees, rank);
    auto known =
        std::find_if(classes.list.begin(), classes.list.end(), [&](const RankClass &rankClass) {
          return rankClass.devices == on && rankClass.group == group;
        });
    if (known == classes.list.end())
      known = classes.list.insert(
          known, {on, inGroup(degrees, group), group, 0, !degrees.groups.empty()});
    ++known->ranks;
    classes.byRank[rank] = size_t(known - classes.list.begin());
  }
  return classes;
}

const ShardCosts *Estimator::shardOf(const RankClass &rankClass, const ShardVariant &variant,
                                     std::string &error) {
  const std::vector<OpId> &cuts = cutsFor(rankClass.degrees);
  return rankClass.ownShardings
             ? rankClass.devices->get(rankClass.degrees, variant, cuts, error)
             : library.getFor(*rankClass.devices, rankClass.degrees, variant, cuts, error);
}

/// Seconds of a microbatch on the busiest rank, however the model is cut. Ranks of class k
/// would take W_k for all of it, and w_k(u) for the unit u. If none has more than L to do,
/// then weighing each by 1 / W_k
///
///   L * sum over ranks of 1 / W_k  >=  sum over u of w_k(u) / W_k, k where u is
///                                  >=  sum over u of the least w_k(u) / W_k of all k
double Estimator::balancedFloor(const RankClasses &classes,
                                const std::vector<const UnitCosts *> &allUnitCosts) const {
  auto seconds = [&](size_t rankClass, int a, int b) {
    PassSeconds all = allUnitCosts[rankClass]->seconds(a, b);
    return all.forward + all.backward();
  };
  double rates = 0, work = 0;
  int units = allUnitCosts[0]->units();
  for (size_t rankClass = 0; rankClass < allUnitCosts.size(); ++rankClass) {
    double whole = seconds(rankClass, 0, units);
    if (whole <= 0)
      return 0;
    rates += double(classes.list[rankClass].ranks) / whole;
  }
  for (int unit = 0; unit < units; ++unit) {
    double least = kInfinity;
    for (size_t rankClass = 0; rankClass < allUnitCosts.size(); ++rankClass)
      least = std::min(least, seconds(rankClass, unit, unit + 1) / seconds(rankClass, 0, units));
    work += least;
  }
  return work / rates;
}

/// Of clusters of one type: on others, what there is to find depends on the pipeline's ranks.
void Estimator::lookAhead(const std::vector<Degrees> &list, const ShardVariant &variant) {
  std::vector<ShardLibrary::Asked> asked;
  for (const Degrees &degrees : list)
    if (library.getCluster().others.empty())
      asked.push_back({degrees, &cutsFor(degrees)});
  library.solveAhead(asked, variant);
}

double Estimator::lowerBound(const Degrees &degrees, const ShardVariant &variant,
                             std::string &error) {
  RankClasses classes = rankClassesOf(degrees);
  std::vector<const UnitCosts *> allUnitCosts;
  for (const RankClass &rankClass : classes.list) {
    const ShardCosts *shard = shardOf(rankClass, variant, error);
    if (!shard)
      return kInfinity;
    allUnitCosts.push_back(&shard->unitCosts(degrees.recompute, cutsFor(degrees)));
  }
  // As if all ranks were of the fastest class.
  double least = kInfinity;
  for (const UnitCosts *unitCosts : allUnitCosts)
    least = std::min(least, pipelineFloor(*unitCosts, degrees));
  if (allUnitCosts.size() > 1)
    least = std::max(least, double(degrees.numMicrobatches) * balancedFloor(classes, allUnitCosts));
  return least;
}

/// What a rank may lack of the memory that it needs.
static double extraBytes(const EstimateOptions &options) {
  return options.anyMemory ? options.mostShort : 0;
}

/// The pipelines of one set of degrees, cut for a budget and simulated.
class Estimator::Pipelines {
public:
  /// `fixed`: the only cuts that there may be, if given.
  /// `memoryShare` as in EstimateOptions.
  Pipelines(const Cluster &cluster, const Degrees &degrees, Ranks byRank,
            const schedule::Schedule &schedule, std::optional<std::vector<int>> fixed,
            double memoryShare)
      : cluster(cluster), degrees(degrees), byRank(std::move(byRank)), schedule(schedule),
        units(this->byRank[0]->unitCosts.units()), fixed(std::move(fixed)),
        memoryShare(memoryShare) {
    std::vector<int> even;
    for (int stage = 0; stage <= stages(); ++stage)
      even.push_back(static_cast<int>(int64_t(units) * stage / stages()));
    evenRuns = runsBetween(even);
  }

  /// With every stage within this share of its rank's memory, where none is so dear that no
  /// step with it keeps the limit.
  Estimator::Outcome cut(double share, double limit) {
    auto found = cheapest(share, kDearest * limit);
    if (!found)
      return canBeCut(share) ? Estimator::Outcome::TooSlow : Estimator::Outcome::TooLarge;
    cuts = std::move(*found);
    runs.clear();
    std::vector<StageOn> on = stagesWithin(share);
    for (size_t stage = 0; stage < on.size(); ++stage)
      runs.push_back(
          on[stage]
              .own->prices(cuts[stage], cuts[stage + 1], on[stage].held, on[stage].budget)
              ->run);
    recomputeRests();
    return Estimator::Outcome::Found;
  }
  /// However slow it is.
  bool canBeCut(double share) {
    return fixed ? cheapest(share, kInfinity).has_value()
                 : canCut(units, stages(), pricesWithin(share));
  }
  simulate::Costs stageCosts() const {
    simulate::Costs result;
    if (std::all_of(byRank.begin(), byRank.end(),
                    [&](const auto &rank) { return rank == byRank[0]; })) {
      result = byRank[0]->costs.costs(runs, schedule.placement);
    } else {
      std::vector<const StageCosts *> ranks;
      for (const auto &rank : byRank)
        ranks.push_back(&rank->costs);
      result = MixedStages(cluster, std::move(ranks), neighbouringDevices(degrees))
                   .costs(runs, schedule.placement);
    }
    // Costs of a rank are of any schedule.
    result.blockingSends = blockingSends(cluster.software, degrees.schedule);
    return result;
  }
  /// Whether all ranks together can hold what is kept from step to step, each with this share of
  /// its memory and so many bytes more.
  bool holdStates(double share, double extra = 0) const {
    if (!degrees.groups.empty())
      return true; // how much that is depends on where the cuts are
    double capacity = 0;
    for (size_t rank = 0; rank < byRank.size(); ++rank)
      capacity += share * expectedCapacityOf(rank) + extra;
    return byRank[0]->costs.rank({StageRun(0, units)}).staticBytes <= capacity;
  }
  /// Keeps the cuts, and recomputes as few blocks of each rank as it needs to hold all of its
  /// chunks, with what it had of messages where a simulated step was too large; false where it
  /// can't.
  bool recomputeByRank() {
    std::vector<std::vector<int>> ends;
    for (size_t stage = 0; stage < runs.size(); ++stage)
      ends.push_back(byRank[schedule.placement.rank(int64_t(stage))]->prices.blockEnds(
          runs[stage].begin, runs[stage].end));
    for (double room : {1 - kSpareMemory, 1.0}) {
      auto fits = [&](const StageCosts::Runs &) {
        simulate::Costs all = stageCosts();
        std::vector<bool> result;
        for (size_t rank = 0; rank < byRank.size(); ++rank)
          result.push_back(holds(all, rank, room, messages.empty() ? 0 : -messages[rank]));
        return result;
      };
      if (recomputeFewest(schedule, ends, fits, runs)) {
        recomputeRests();
        return true;
      }
    }
    return false;
  }
  /// The seconds and the memory of a step with the stages as they were cut.
  Estimator::Outcome simulated(StepEstimates &steps, const EstimateOptions &options,
                               Estimate &result, std::string &error) {
    const schedule::ScheduleShape shape = scheduleShape(degrees);
    simulate::Costs all = stageCosts();
    if (simulate::lowerBound(shape, all) > options.limit)
      return Outcome::TooSlow;
    result.host = hostUse();
    if ((!options.anyMemory && result.host.shortBytes() > 0) ||
        holdTooMuch(all, extraBytes(options)))
      return Outcome::TooLarge;
    StepEstimate step = steps.estimate(shape, all);
    if (!step.error.empty()) {
      error = step.error;
      return Outcome::Impossible;
    }
    result.seconds = step.seconds;
    setMemory(step.peakBytes, result);
    if (result.fits() || options.anyMemory)
      return Outcome::Found;
    messages.clear();
    for (size_t rank = 0; rank < byRank.size(); ++rank)
      messages.push_back(step.peakBytes[rank] - leastBytes(all, rank));
    return Outcome::TooLarge;
  }

  std::vector<int> cuts;
  StageCosts::Runs runs; ///< between them

private:
  /// Stages are priced as if what a call exchanges hid behind nothing else than the same pass's
  /// computing. That is no more than twice what the simulator takes.
  static constexpr double kDearest = 2;

  /// Whether any rank holds too much, whenever its calls are made.
  bool holdTooMuch(const simulate::Costs &all, double extra = 0) const {
    for (size_t rank = 0; rank < byRank.size(); ++rank)
      if (!holds(all, rank, 1, extra))
        return true;
    return false;
  }
  /// That of the rank which fills its device most.
  void setMemory(const std::vector<double> &peaks, Estimate &estimate) const {
    auto filled = [&](size_t rank) {
      double capacity = capacityOf(rank);
      return capacity > 0 ? peaks[rank] / capacity : kInfinity;
    };
    size_t fullest = 0;
    for (size_t rank = 1; rank < peaks.size(); ++rank)
      if (filled(rank) > filled(fullest))
        fullest = rank;
    estimate.memory = peaks[fullest];
    estimate.capacity = capacityOf(fullest);
  }

  /// In the hosts' memory.
  HostUse hostUse() const {
    if (degrees.offload == Offload::None)
      return {};
    std::vector<double> bytes;
    for (size_t rank = 0; rank < byRank.size(); ++rank) {
      const StageCosts &own = byRank[rank]->costs;
      bytes.push_back(own.hostBytes(runsOf(runs, schedule.placement, int64_t(rank))));
    }
    return fullestHost(cluster, degrees, bytes);
  }

  /// Plans recompute whole blocks. Where a stage computes again the part with which it ends, the
  /// next one does so with the rest.
  void recomputeRests() {
    for (size_t stage = 1; stage < runs.size(); ++stage) {
      StageRun &run = runs[stage];
      const StagePrices &prices = byRank[schedule.placement.rank(int64_t(stage))]->prices;
      if (runs[stage - 1].kept == run.begin && prices.isWithinBlock(run.begin))
        run.kept = std::max(run.kept, prices.blockEnds(run.begin, run.end).front());
    }
  }
  int stages() const { return static_cast<int>(schedule.shape.stages()); }
  double capacityOf(size_t rank) const { return capacityOf(rank, runs); }
  /// It depends on the cuts which ranks sum up the gradients of tied weights.
  double capacityOf(size_t rank, const StageCosts::Runs &between) const {
    const StageCosts &costs = byRank[rank]->costs;
    const int64_t groups =
        costs.tiedGroups(between, schedule.placement, int64_t(rank), !degrees.groups.empty());
    return memoryShare * (byRank[rank]->capacity - costs.getModel().reserve(groups).communicators);
  }
  /// Before the cuts are known.
  double expectedCapacityOf(size_t rank) const { return capacityOf(rank, evenRuns); }
  /// Without messages, of which a simulated step alone knows how many there are at a time.
  double leastBytes(const simulate::Costs &all, size_t rank) const {
    return simulate::leastPeakBytes(schedule, all, static_cast<int64_t>(rank));
  }
  bool holds(const simulate::Costs &all, size_t rank, double share, double extra = 0) const {
    return leastBytes(all, rank) <= share * capacityOf(rank) + extra;
  }
  struct StageOn {
    RankStages *own = nullptr;
    StageCosts::InFlight held;
    double budget = 0; ///< bytes
  };
  std::vector<StageOn> stagesWithin(double share) {
    std::vector<StageOn> result;
    bool splits = describe(degrees.schedule).splitsBackward();
    for (int64_t stage = 0; stage < schedule.shape.stages(); ++stage) {
      auto [rank, chunk] = schedule.placement.place(stage);
      double capacity = expectedCapacityOf(size_t(rank));
      result.push_back({byRank[rank].get(),
                        {schedule.slots[rank][chunk], splits},
                        share == kInfinity ? share : share * capacity});
    }
    return result;
  }
  StagePrice pricesWithin(double share) {
    return [on = stagesWithin(share)](int a, int b, int stage, double limit) {
      return on[stage].own->prices.seconds(a, b, on[stage].held, on[stage].budget, limit);
    };
  }
  std::optional<std::vector<int>> cheapest(double share, double limit) {
    StagePrice price = pricesWithin(share);
    if (!fixed)
      return cutStages(units, stages(), price, limit);
    for (int stage = 0; stage < stages(); ++stage)
      if (double seconds = price((*fixed)[stage], (*fixed)[stage + 1], stage, limit);
          seconds == kInfinity || seconds > limit)
        return std::nullopt;
    return fixed;
  }

  const Cluster &cluster;
  const Degrees &degrees;
  Ranks byRank;
  const schedule::Schedule &schedule;
  int units;
  std::optional<std::vector<int>> fixed;
  double memoryShare;
  StageCosts::Runs evenRuns;    ///< as many units in each stage
  std::vector<double> messages; ///< by rank, in the last simulated step that was too large
};

/// The blocks that have a part which is recomputed.
static std::vector<BlockRecompute> recomputedBlocks(const StageCosts::Runs &runs,
                                                    const UnitCosts &unitCosts,
                                                    const std::vector<Block> &blocks,
                                                    Recompute kind) {
  std::vector<BlockRecompute> result;
  for (size_t block = 0; block < blocks.size(); ++block) {
    int first = unitCosts.unitOf(blocks[block].first), last = unitCosts.unitOf(blocks[block].last);
    if (std::any_of(runs.begin(), runs.end(), [&](const StageRun &run) {
          return std::max(first, run.begin) < std::min(last + 1, run.kept);
        }))
      result.push_back({static_cast<int64_t>(block), kind});
  }
  return result;
}

static void setRecomputed(Estimate &estimate, std::vector<BlockRecompute> recomputed,
                          size_t blocks) {
  if (recomputed.empty())
    estimate.degrees.recompute = Recompute::None;
  else if (recomputed.size() < blocks)
    estimate.degrees.recomputeBlocks = static_cast<int64_t>(recomputed.size());
  estimate.recompute = std::move(recomputed);
}

/// Shares of its rank's memory that each stage may take, in the order in which they are
/// tried. Chunks of a rank share its memory: cut for speed first, then so that each
/// keeps to its part.
static std::vector<double> sharesOf(const Degrees &degrees, bool anyMemory) {
  std::vector<double> shares = {1};
  if (degrees.chunks > 1)
    shares = {kInfinity, 1 / double(degrees.chunks)};
  if (anyMemory)
    shares.push_back(kInfinity);
  return shares;
}

Estimator::Ranks Estimator::ranksOf(const Degrees &degrees, const ShardVariant &variant,
                                    const EstimateOptions &options, std::string &error) {
  RankClasses classes = rankClassesOf(degrees);
  std::vector<std::shared_ptr<RankStages>> stages;
  for (const RankClass &rankClass : classes.list) {
    const ShardCosts *shard = shardOf(rankClass, variant, error);
    if (!shard)
      return {};
    stages.push_back(rankStages.get({rankClass.devices, shard, rankClass.degrees,
                                     &cutsFor(rankClass.degrees), options.someBlocks}));
  }
  Ranks byRank;
  for (size_t rankClass : classes.byRank)
    byRank.push_back(stages[rankClass]);
  return byRank;
}

/// Where software has equally many layers in each stage.
std::optional<std::vector<int>> Estimator::fixedCuts(const UnitCosts &unitCosts, int stages) const {
  if (!library.getModel().getCluster().software.evenStages)
    return std::nullopt;
  std::vector<int> layers;
  for (const Block &block : library.getBlocks())
    layers.push_back(unitCosts.unitOf(block.first));
  return evenCuts(layers, unitCosts.units(), stages);
}

bool Estimator::mayFit(const Degrees &degrees, const ShardVariant &variant, bool someBlocks,
                       double share) {
  const schedule::Schedule *schedule = steps.likeSchedule(scheduleShape(degrees));
  std::string error;
  Ranks byRank = ranksOf(degrees, variant, {0, false, someBlocks}, error);
  if (!schedule || byRank.empty())
    return true;
  Pipelines pipelines(library.getCluster(), degrees, byRank, *schedule, std::nullopt,
                      /*memoryShare=*/1);
  return pipelines.holdStates(share) && pipelines.canBeCut(share);
}

/// Where blocks are computed again as memory asks for, none may have to be.
static Degrees quickest(Degrees degrees, bool someBlocks) {
  if (someBlocks)
    degrees.recompute = Recompute::None;
  return degrees;
}

/// Where the stages begin, and which blocks are computed again.
static void setStages(const std::vector<int> &cuts, const std::vector<StageRun> &runs,
                      const UnitCosts &unitCosts, const std::vector<Block> &blocks,
                      OpId lastForward, bool someBlocks, Estimate &result) {
  for (int unit : cuts)
    result.cuts.push_back(unit < unitCosts.units() ? unitCosts.firstOp(unit) : lastForward + 1);
  const Recompute recompute = result.degrees.recompute;
  if (someBlocks)
    setRecomputed(result, recomputedBlocks(runs, unitCosts, blocks, recompute), blocks.size());
  else
    result.recompute = recomputeAll(blocks, recompute);
}

Estimator::Outcome Estimator::estimate(const Degrees &degrees, const ShardVariant &variant,
                                       const EstimateOptions &options, Estimate &result,
                                       std::string &error) {
  const schedule::ScheduleShape shape = scheduleShape(degrees);
  const schedule::Schedule *schedule = steps.likeSchedule(shape);
  if (!schedule)
    return Outcome::Impossible;
  if (lowerBound(quickest(degrees, options.someBlocks), variant, error) > options.limit)
    return Outcome::TooSlow;
  Ranks byRank = ranksOf(degrees, variant, options, error);
  if (byRank.empty())
    return Outcome::Impossible;
  const UnitCosts &unitCosts = byRank[0]->unitCosts;
  const std::vector<Block> &blocks = library.getBlocks();
  Pipelines pipelines(library.getCluster(), degrees, byRank, *schedule,
                      fixedCuts(unitCosts, static_cast<int>(shape.stages())), options.memoryShare);
  if (!pipelines.holdStates(1, extraBytes(options)))
    return Outcome::TooLarge;
  std::optional<Estimate> best;
  auto tryRuns = [&] {
    result = {degrees, variant, {}, {}, 0, 0, 0, {}};
    Outcome tried = pipelines.simulated(steps, options, result, error);
    if (tried == Outcome::Found && (!best || result.seconds < best->seconds)) {
      setStages(pipelines.cuts, pipelines.runs, unitCosts, blocks, facts.lastForward,
                options.someBlocks, result);
      best = result;
    }
    return tried;
  };
  // Of chunks that were cut as if each had its own memory, or all of it, fewer blocks may do.
  bool sharesMemory = degrees.chunks > 1 && options.someBlocks && !options.anyMemory;
  Outcome outcome = Outcome::TooLarge;
  for (double share : sharesOf(degrees, options.anyMemory)) {
    outcome = pipelines.cut(share, options.limit);
    if (outcome == Outcome::Found) {
      outcome = tryRuns();
      bool isOpen = outcome == Outcome::TooLarge || share < kInfinity;
      // Once more, when it is known what messages take.
      if (sharesMemory && isOpen && pipelines.recomputeByRank() && tryRuns() == Outcome::TooLarge &&
          pipelines.recomputeByRank())
        tryRuns();
    }
    if (outcome != Outcome::TooLarge)
      break;
  }
  if (!best)
    return outcome;
  result = std::move(*best);
  return Outcome::Found;
}

} // namespace dtc::plan
