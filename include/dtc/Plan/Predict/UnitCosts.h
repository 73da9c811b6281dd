// What each part of a model costs one rank, for one microbatch: an execution
// read off by unit.
//
// The forward ops are cut at `cuts` into units; unit u has the ops cuts[u] to
// cuts[u + 1] - 1 and the backward ops that belong to them. A pipeline stage is
// a run of units [a, b). Seconds add up over units. Memory doesn't: what a unit
// reads may have been made before the stage, which then has a copy of it. For
//
//   unit      0         1         2
//   forward   y=f(x)    z=g(y)    loss
//   backward            reads y   reads z
//
// the stages [0,1) and [1,3) keep nothing and y, z between the passes of a
// microbatch; the one stage [0,3) keeps y, z.
//
// The costs of a whole model follow from the execution of a folded one (Fold.h):
// its repeated units occur as often as they stand for, and what is live grows by
// the same amount from each to the next.
#pragma once

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Predict/RankExecution.h"
#include "dtc/Plan/Solve/RangeMax.h"
#include "dtc/Plan/Solve/StageTable.h"

#include <memory>

namespace dtc::plan {

struct PassSeconds {
  double forward = 0, recompute = 0, inputGrad = 0, weightGrad = 0;
  double backward() const { return recompute + inputGrad + weightGrad; }
  PassSeconds &operator+=(const PassSeconds &other);
  PassSeconds operator-(const PassSeconds &other) const;
};

/// Units that write and read buffers, and the bytes of those.
struct UnitUse {
  int writer = -1; ///< -1: none, or what isn't part of the activations
  bool forwardWriter = false;
  std::vector<int> forward, backward; ///< readers, ascending and distinct
  int64_t bytes = 0;
  auto operator<=>(const UnitUse &) const = default;
};

class UnitCosts {
public:
  /// `cuts`: ascending, the first 0, the last one past the last forward op.
  UnitCosts(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
          const sharding::Mesh &mesh, std::vector<OpId> cuts);
  /// Of the whole model, whose units are between `cuts`, from a folded one's; null
  /// where its blocks that are alike don't do the same.
  static std::unique_ptr<UnitCosts> ofFolded(const Problem &folded, const ProblemFacts &facts,
                                           const RankExecution &execution,
                                           const sharding::Mesh &mesh, const FoldedCuts &at,
                                           std::vector<OpId> cuts);

  int units() const { return static_cast<int>(cuts.size()) - 1; }
  /// Of a folded model, which units are repeated.
  const FoldedUnits &folded() const { return executed.units; }
  OpId firstOp(int unit) const { return cuts[unit]; }
  /// The unit in which a forward op is.
  int unitOf(OpId position) const;
  /// The units in which an op of the execution is: several of a repeated one.
  std::vector<int> unitsOf(OpId executed) const;

  /// Of the units [a, b).
  PassSeconds seconds(int a, int b) const { return sums[b] - sums[a]; }
  PassSeconds communication(int a, int b) const { return collectives[b] - collectives[a]; }
  /// The host's, to launch all of it.
  PassSeconds host(int a, int b) const { return hosts[b] - hosts[a]; }
  /// What a microbatch keeps from its forward to its backward pass.
  int64_t savedBytes(int a, int b) const { return saved(a, b); }
  /// The most that one microbatch takes while nothing else runs, arguments and
  /// gradients of parameters aside.
  int64_t peakBytes(int a, int b) const;
  /// What a rank sends over the cut before a unit, each pass.
  int64_t forwardBytes(int unit) const { return sentForward[unit]; }
  int64_t backwardBytes(int unit) const { return sentBackward[unit]; }
  /// Units whose ops, or the backward ops that belong to them, read an argument or what is
  /// computed from buffers alone, ascending. One that stands for several of the whole model has
  /// these for its first copy, and each other copy those that lie folded().count units further.
  struct Readers {
    std::vector<int> units;
    int copies = 1;
  };
  const Readers &readers(ValueId argument) const { return argumentReaders[argument]; }

private:
  UnitCosts() = default;
  bool build(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
             const sharding::Mesh &mesh);
  /// Units of the execution, of which some may be repeated.
  int executedUnits() const { return static_cast<int>(executed.cuts.size()) - 1; }
  int executedUnitOf(OpId position) const;
  bool isBefore(int unit) const;
  bool isAfter(int unit) const;
  void addSeconds(const RankExecution &execution);
  bool addMemory(const RankExecution &execution);
  std::optional<int64_t> growthOf(const std::vector<int64_t> &most) const;
  bool addLive(const RankExecution &execution, std::vector<int64_t> &forward,
               std::vector<int64_t> &backward) const;
  bool addLeaving(const RankExecution &execution, const std::vector<int64_t> &live, int64_t left,
                  std::vector<int64_t> &forward, std::vector<int64_t> &backward) const;
  std::vector<UnitUse> usesOf(const RankExecution &execution) const;
  bool inStep(const std::vector<UnitUse> &uses) const;
  UnitUse wholeUse(const UnitUse &use) const;
  void addTransfers(const Problem &problem, const ProblemFacts &facts,
                    const RankExecution &execution, const sharding::Mesh &mesh);

  void addArguments(const Problem &problem, const ProblemFacts &facts);

  std::vector<OpId> cuts;
  FoldedCuts executed; ///< what was executed; the same, unless it was folded
  std::vector<PassSeconds> sums, collectives, hosts; ///< of the units before, by unit
  StageTable saved;
  /// Of what is live in the whole model's execution, what isn't a stage's: of the forward pass
  /// before it, of the backward pass after it.
  StageTable before, after;
  RangeMax mostForward, mostBackward; ///< live in each unit
  std::vector<int64_t> sentForward, sentBackward;
  std::vector<Readers> argumentReaders;
};

} // namespace dtc::plan
