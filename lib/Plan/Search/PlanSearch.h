// One search: what it has at hand and what it has found so far (see PlanSearch.cpp).
#pragma once

#include "Candidates.h"

#include "dtc/Plan/Search/Orders.h"
#include "dtc/Plan/Search/Realize.h"

#include <array>
#include <limits>
#include <map>

namespace dtc::plan {

/// What one runner-up stands for: schedules of one mesh, and groups of ZeRO's storage, aren't
/// told apart.
Degrees kindOf(Degrees degrees);

class PlanSearch {
public:
  PlanSearch(const Problem &problem, const Cluster &cluster, const SearchOptions &options,
             Spec spec)
      : problem(problem), cluster(cluster), options(options), spec(std::move(spec)),
        library(problem, cluster, options), facts(library.getFacts()),
        estimator(library, problem, facts) {}
  Result<SearchResult> run();
  /// How many plans it has estimated, or found not to be worth it.
  int64_t getEstimates() const { return estimates; }

private:
  struct Family {
    Degrees degrees;
    double floor = 0; ///< seconds a sample
    bool isShort = false; ///< of memory, as it is sharded for speed
  };
  /// Which shardings are tried.
  enum class Variants : uint8_t {
    Plain,   ///< plainVariants
    Small,   ///< smallVariants
    Frontier ///< frontierVariants
  };

  void orderFamilies(const std::vector<Degrees> &list);
  void searchFamilies(Variants variants, Offload offload);
  void searchOffloaded();
  void searchSmaller(Offload offload, bool isLastResort);
  void searchFamily(const Degrees &family, Variants variants);
  bool searchesOrders() const;
  bool nearPays();
  /// In estimates, which solving shardings takes as long as many of.
  int64_t effort() const { return estimates + 10 * library.solves(); }
  const std::vector<AxisOrder> &ordersOf(const Degrees &degrees);
  Degrees familyOf(const Estimate &estimate) const;
  double secondsToBeat() const;
  void searchOrders(Degrees family, Variants variants);
  Estimator::Outcome tryOrders(const Degrees &degrees, const ShardVariant &variant,
                               const EstimateOptions &asked);
  void searchAllOrders(Variants variants, Offload offload);
  void searchBetweenLevels();
  void tryBetweenLevels(const Degrees &degrees, const ShardVariant &variant);
  bool fitsBelow(Degrees degrees) const;
  bool searchStorage(Degrees degrees, Variants variants, size_t &recompute);
  Estimator::Outcome estimate(const Degrees &degrees, const ShardVariant &variant,
                              const EstimateOptions &asked, Estimate &estimated);
  Estimator::Outcome tryDegrees(const Degrees &degrees, Variants variants);
  bool mayOffload() const;
  bool mayReceiveLess(const Degrees &degrees) const;
  void keep(Estimate estimate);
  double limitPerSample() const;
  std::vector<const Estimate *> bestKinds() const;
  double limit(const Degrees &degrees) const;
  double evenPrice() const;
  bool trains() const;
  std::vector<ShardVariant> plainVariants() const;
  bool canHoldModel() const;
  bool holdsTooMuch(const Degrees &degrees, double states) const;
  std::vector<ShardVariant> smallVariants() const;
  std::vector<int64_t> smallerZeroGroups(const Degrees &family);
  std::vector<ShardVariant> frontierVariants(const Degrees &degrees);
  std::vector<ShardVariant> variantsOf(const Degrees &degrees, Variants variants);
  std::vector<int> zeroLevels(const Degrees &degrees) const;
  /// In the order in which they are tried: of as few blocks as will do, unless pinned.
  std::vector<Recompute> recomputations() const;
  std::vector<std::optional<Result<Realized>>> realizeFastest();
  Result<SearchResult> finish(bool anyMemory);
  void searchAnyMemory();
  void searchAnyMemory(Offload offload);

  const Problem &problem;
  const Cluster &cluster;
  const SearchOptions &options;
  Spec spec;
  ShardLibrary library;
  const ProblemFacts &facts;
  Estimator estimator;
  std::string refusal;
  std::vector<Family> families;
  std::vector<Estimate> found; ///< by seconds a sample
  std::map<std::pair<Degrees, ShardVariant>, bool> mayFit; ///< with 1F1B; as far as is known
  std::optional<bool> near; ///< nearIsFaster
  int64_t estimates = 0, mostEffort = 0;
  bool wasShort = false; ///< something didn't fit, or was recomputed
  /// Only what is faster than the best is of use, by whichever variant.
  bool bestAlone = false;
  std::optional<double> mustBeat; ///< seconds a sample that nothing slower is of use
  /// The same, while plans that offload are searched beside others.
  double offloadBelow = std::numeric_limits<double>::infinity();
  /// Kinds that other orders are searched for; none: for the best of all.
  std::vector<Degrees> rivals;
  /// By tp, cp, ep, dp and pp.
  std::map<std::array<int64_t, kAxes>, std::vector<AxisOrder>> orders;
  /// What is known of all orders of some degrees, and for which limit.
  std::map<std::pair<Degrees, ShardVariant>, std::pair<Estimator::Outcome, double>> ofOrders;
};

} // namespace dtc::plan
