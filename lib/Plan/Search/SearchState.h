// What one search knows: the facts that it began with, and what it has found so far.
//
// A search has candidates: degrees of parallelism with a floor, the seconds a sample that no
// plan of theirs can beat. Strategies (Strategies.h) work on this state one after the other. Each
// tries some candidates (TryCandidate.h), which adds the plans that it finds to `found`. For 16
// devices that could be
//
//   candidates   dp=16 (floor 1.00)   dp=8 tp=2 (1.04)   dp=4 tp=4 (1.15)   ...
//   found        dp=16 zero=1 (1.06)   dp=8 tp=2 (1.07)
//
// and dp=4 tp=4 isn't tried, as nothing above 1.1 times the best is worth telling.
#pragma once

#include "Candidates.h"

#include "dtc/Plan/Search/CompletePlan.h"

#include <map>

namespace dtc::plan {

struct Candidate {
  Degrees degrees;
  double floor = 0;     ///< seconds a sample
  bool isShort = false; ///< of memory, as it is sharded for speed
};

struct SearchState {
  /// `known`: shardings that were solved for the same problem and cluster, if there are any.
  SearchState(const Problem &problem, const Cluster &cluster, const SearchOptions &options,
              Spec spec, std::shared_ptr<ShardLibrary> known = nullptr)
      : problem(problem), cluster(cluster), options(options), spec(std::move(spec)),
        kept(known ? std::move(known) : std::make_shared<ShardLibrary>(problem, cluster, options)),
        shardings(*kept), facts(shardings.getFacts()), estimator(shardings, problem, facts) {}
  SearchState(const SearchState &) = delete;

  const Problem &problem;
  const Cluster &cluster;
  const SearchOptions &options;
  const Spec spec;
  const std::shared_ptr<ShardLibrary> kept; ///< for further searches of the problem
  ShardLibrary &shardings;
  const ProblemFacts &facts;
  Estimator estimator;

  std::vector<Candidate> candidates; ///< by floor
  std::string refusal;               ///< why the last degrees that are missing are
  std::vector<Estimate> found;       ///< by seconds a sample
  int64_t estimates = 0; ///< plans estimated, or found not to be worth it
  /// Whether degrees fit with 1F1B, as far as is known.
  std::map<std::pair<Degrees, ShardVariant>, bool> mayFit;
  /// By mesh and schedule: the candidate with the smallest microbatch. Filled when asked for.
  std::map<Degrees, Degrees> smallest;
  std::map<Degrees, bool> outOfReach; ///< of these (isOutOfReach), as far as is known
  /// Estimates aren't trusted: only plans that fit when they are complete are found
  /// (ConfirmFit.cpp).
  bool confirms = false;
  int64_t confirmed = 0; ///< complete plans looked at for it

  bool trains() const;
  /// Whether states may be offloaded: plans that are pinned in full have them on the devices.
  bool mayOffload() const;
  /// Levels of ZeRO that degrees may have.
  std::vector<int> zeroLevels(const Degrees &degrees) const;
  /// In the order in which they are tried: of as few blocks as will do, unless pinned.
  std::vector<Recompute> recomputations() const;
  /// Whether as few blocks as will do are recomputed by such degrees.
  bool recomputesSome(const Degrees &degrees) const;
  /// Whether it is searched how many microbatches a rank keeps.
  bool choosesKept(const Degrees &degrees) const { return degrees.kept > 0 && !spec.kept; }
  /// What has been spent, in estimates. Solving a sharding takes as long as ten of them, and so
  /// does completing a plan.
  int64_t effort() const { return estimates + 10 * (shardings.solves() + confirmed); }

  Estimator::Outcome estimate(const Degrees &degrees, const ShardVariant &variant,
                              const EstimateOptions &asked, Estimate &estimated);
  /// Whether its complete plan fits; false where too many were looked at. `holdsLeast`: of its mesh
  /// and schedule.
  bool confirm(const Estimate &estimated, bool holdsLeast);
  /// Whether they may fit, with all blocks recomputed alike (Estimator::mayFit).
  bool mayFitAtLeast(const Degrees &degrees, const ShardVariant &variant, double share);
  void keep(Estimate estimate);

private:
  Estimator::Outcome estimateOnce(const Degrees &degrees, const ShardVariant &variant,
                                  const EstimateOptions &asked, Estimate &estimated);
  Estimator::Outcome estimateConfirmed(const Degrees &degrees, const ShardVariant &variant,
                                       EstimateOptions asked, Estimate &estimated);
  /// Whether stages fit that were estimated not to (ConfirmFit.cpp).
  bool fitsAsStages(const Degrees &degrees, const ShardVariant &variant, EstimateOptions asked,
                    Estimate &estimated);
};

/// How many of the best are carried out in full; the others are estimates.
inline constexpr size_t kRunnersUp = 5;

/// What one runner-up stands for: schedules of one mesh, orders of its axes, groups of ZeRO's
/// storage and what is gathered again aren't told apart.
Degrees runnerUpOf(Degrees degrees);
/// The fastest of each kind of runner-up, as many as are told of, best first.
std::vector<const Estimate *> bestRunnersUp(const SearchState &state);

// Seconds a sample above which a plan is of no use.

/// Slower plans are not among the best few, or much slower than the best.
double worthTelling(const SearchState &state);
/// Only what is faster than the best is of use.
double beatsBest(const SearchState &state);

// Shardings found at different prices of memory.

/// Seconds a byte at which all of a rank's memory costs as much as a step takes.
double evenPrice(const SearchState &state);
/// One as fast as can be. One with sequence parallelism, and whatever else holds less for next to
/// no time. One with no more copies than are worth their memory.
std::vector<ShardVariant> plainVariants(const SearchState &state);
std::vector<ShardVariant> plainVariants(std::optional<bool> sp, double evenPrice);
/// How many times the even price a byte costs at most: what holds least wins.
inline constexpr double kDearest = 40000;
/// Shardings that trade time for memory: a byte held costs ever more.
std::vector<ShardVariant> smallVariants(const SearchState &state);

} // namespace dtc::plan
