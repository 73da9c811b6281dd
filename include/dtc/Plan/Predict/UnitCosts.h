// What each part of a model costs one rank, for one microbatch: an execution
// read off by unit.
//
// The forward ops are cut at `cuts` into units. Unit u has the ops cuts[u] to cuts[u + 1] - 1, and
// the backward ops that belong to them. A pipeline stage is a run of units [a, b). Seconds add up
// over units. Memory doesn't: what a unit reads may have been made before the stage, which then has
// a copy of it. For
//
//   unit      0         1         2
//   forward   y=f(x)    z=g(y)    loss
//   backward            reads y   reads z
//
// the stages [0,1) and [1,3) keep nothing and y, z between the passes of a
// microbatch; the one stage [0,3) keeps y, z.
//
// The costs of a whole model follow from the execution of a folded one (Fold.h). Its repeated units
// occur as often as they stand for. What is live grows by the same amount from each to the next.
#pragma once

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Predict/StageCalls.h"
#include "dtc/Plan/Predict/StoredLiveness.h"
#include "dtc/Plan/Solve/RangeMax.h"
#include "dtc/Plan/Solve/StageTable.h"

#include <algorithm>
#include <array>
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
  std::vector<int> late; ///< readers that make gradients of weights from what was there before
  bool isTerm = false;   ///< of a weight's gradient: summed up where it is made
  bool isStatic = false; ///< made of constants and buffers alone
  /// Stages with both of these units make it again rather than keep it (RemadeValues.h); -1: none.
  int remadeFrom = -1, remadeTo = -1;
  /// Computed again for the backward pass. A stage that begins after its writer has kept instead
  /// what it received in the forward pass.
  bool isCopy = false;
  int64_t bytes = 0;
  auto operator<=>(const UnitUse &) const = default;
};

/// By unit, the units [begin, end) of its block, which exchange parameters and gradients together.
struct UnitBlocks {
  std::vector<int> begin, end;
};

/// Which units of a stage [a, b) hold something of blocks beside their own: those of
/// [firstAfter[a], endAfter[b - 1]) of a block after them, and those from firstBefore[a] on of one
/// before them.
struct UnitNeighbours {
  std::vector<int> firstBefore, firstAfter, endAfter;
  std::vector<int> after; ///< by unit, where the block after it begins of which it holds something
};

/// The most bytes of a pass in each unit. What it holds of the blocks beside its own counts where
/// they are in the stage, too.
class UnitPeaks {
public:
  /// Shares of gradients that wait for their sum, for which there are peaks.
  static constexpr double kLeft[] = {0, 1. / 16, 1. / 2};
  using ByShare = std::array<std::vector<int64_t>, std::size(kLeft)>;
  /// What each unit holds of others' parameters and gradients.
  struct Beside {
    std::vector<int64_t> ofBefore, ofAfter;
    std::vector<int64_t> left; ///< of gradients that wait for their sum, as a whole
    std::vector<int64_t> ownLeft = {}; ///< the same of a unit's own, as it scatters them
    /// What there is beyond the sum of what counts of both, where both are in the stage.
    std::vector<int64_t> together = {};
    /// What parts of a unit's own gradients add to its most that wait while it goes on.
    ByShare within = {};
  };
  UnitPeaks() = default;
  explicit UnitPeaks(std::vector<int64_t> each) : units(each.size()) {
    own[0] = RangeMax(std::move(each));
  }
  UnitPeaks(const std::vector<int64_t> &own, const Beside &beside,
            std::shared_ptr<const UnitNeighbours> neighbours);
  /// All units of a stage exchange together: each has the parameters of those that come later in
  /// the pass, and the gradients of those that came before.
  UnitPeaks(std::vector<int64_t> own, const Beside &ofUnits);
  /// Of the units [a, b), of which there is one at least. `share`: of the gradients of the block
  /// after a unit's own, what a rank has left of them.
  int64_t operator()(int a, int b, double share = 0) const { return of(a, b, a, b, share); }
  /// Of the units [from, to) within these.
  int64_t of(int a, int b, int from, int to, double share = 0) const;
  /// What a unit has that is the last of its pass, beside its own. Of units that exchange together.
  int64_t atEnd(int a, int b, double share) const;
  /// Whether there is nothing; true for one without units.
  bool isEmpty() const { return units == 0; }

private:
  size_t units = 0;
  /// Null: nothing of others, or of all of the stage.
  std::shared_ptr<const UnitNeighbours> neighbours;
  /// With what is left of its own gradients, and of those of the block after it, by the shares of
  /// kLeft.
  RangeMax own[3], withBefore[3], withAfter[3], withBoth[3];
  std::vector<int64_t> left, ownLeft;       ///< by unit, of its own block or its own
  std::vector<int64_t> sumBefore, sumAfter; ///< of the units before each, if they exchange together
};

class UnitCosts {
public:
  /// `cuts`: ascending, the first 0, the last one past the last forward op. `blocks`: of the
  /// executed model, which exchange what ZeRO stores in parts; none: units do.
  UnitCosts(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
            const sharding::Mesh &mesh, std::vector<OpId> cuts,
            const std::vector<Block> &blocks = {}, StorageLevels levels = {});
  /// Of the whole model, whose units are between `cuts`, from a folded one's; null
  /// where its blocks that are alike don't do the same.
  static std::unique_ptr<UnitCosts> ofFolded(const Problem &folded, const ProblemFacts &facts,
                                             const RankExecution &execution,
                                             const sharding::Mesh &mesh, const FoldedCuts &at,
                                             std::vector<OpId> cuts,
                                             const std::vector<Block> &blocks = {});

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
  /// What of it can be made again, of constants and buffers alone or of what else is kept.
  int64_t remadeBytes(int a, int b) const { return remadeSaved(a, b); }
  /// Of what crosses a cut, forward or backward, the bytes that the units [a, b) have in a slot.
  /// `splits`: the backward pass comes in two calls.
  int64_t slotBytesOver(int cut, int a, int b, bool splits) const;
  /// The most that one microbatch takes while nothing else runs, what is stored of parameters
  /// and their gradients aside. `zero`: by which level these are stored, in one stage if there
  /// is no other. `share`: what a rank has of a block's gradients until they are added up.
  int64_t peakBytes(int a, int b, int zero = 0, double share = 0) const;
  /// What a microbatch keeps beside it where its backward pass comes in two calls.
  int64_t waitingBytes(int a, int b) const { return waiting(a, b); }
  /// Of what is saved, what gradients of weights read.
  int64_t savedForWeights(int a, int b) const { return lateSaved(a, b); }
  /// The most that a call has beside what is kept for other calls, and beside messages.
  int64_t temporaryBytes(StageCall call, int a, int b, int zero = 0, double share = 0) const;
  /// What a rank sends over the cut before a unit, each pass.
  int64_t forwardBytes(int unit) const { return sentForward[unit]; }
  int64_t backwardBytes(int unit) const { return sentBackward[unit]; }
  /// Units whose ops, or the backward ops that belong to them, read an argument or what is
  /// computed from buffers alone, ascending. One that stands for several of the whole model has
  /// these for its first copy, and each other copy those that lie folded().count units further.
  struct Readers {
    std::vector<int> units;
    int copies = 1;
    /// Of these, which read it itself in their forward pass, and in their backward pass.
    std::vector<int> forward, backward;
    /// The block of the executed model that exchanges it: where it is read first. What comes before
    /// all blocks is one, and what comes after them another.
    int block = 0;
  };
  const Readers &readers(ValueId argument) const { return argumentReaders[argument]; }

private:
  /// What is found of an execution's steps once, for all that is read off them.
  struct ExecutedSteps {
    const RankExecution &execution;
    StageCalls calls;
    std::vector<int> units; ///< by step, of those executed
    std::vector<bool> besideScatters;
    std::vector<bool> waits; ///< by block, whether it waits for a collective in the backward pass
  };

  UnitCosts() = default;
  bool build(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
             const sharding::Mesh &mesh, const std::vector<Block> &blocks);
  /// Units of the execution, of which some may be repeated.
  int executedUnits() const { return static_cast<int>(executed.cuts.size()) - 1; }
  int executedUnitOf(OpId position) const;
  bool isBefore(int unit) const;
  bool isAfter(int unit) const;
  void addSeconds(const ExecutedSteps &steps);
  StoredInStages storedOf(const Problem &problem, const ExecutedSteps &steps) const;
  bool addMemory(const Problem &problem, const ProblemFacts &facts, const ExecutedSteps &steps);
  std::optional<int64_t> growthOf(const std::vector<int64_t> &most) const;
  /// Levels 0 and 1 of ZeRO exchange nothing within a pass.
  static constexpr int kStorings = 3;
  static int storing(int zero) { return std::max(0, zero - 1); }
  /// How many of these are asked for (StageCosts::findExchanged).
  static int storings(const RankExecution &execution) {
    return execution.hasPlaces() ? kStorings : 1;
  }
  ExecutedSteps stepsOf(const Problem &problem, const RankExecution &execution) const;
  void findWaits(ExecutedSteps &steps) const;
  std::vector<bool> scatteredGradients(const RankExecution &execution) const;
  template <typename Of> std::vector<int64_t> forWhole(Of of) const;
  std::vector<int64_t> ofWhole(const std::vector<int64_t> &byUnit) const;
  void findBlocksOfUnits(const std::vector<Block> &blocks);
  std::vector<int64_t> beside(const std::vector<int64_t> &byBlock, bool after,
                              const std::vector<bool> &ends = {}) const;
  /// Of a pass.
  struct Exchanged {
    const StoredLiveness &stored;
    bool backward, gathers, scatters;
    const std::vector<bool> &waits;
  };
  /// The most of each unit, and that in the steps in which it has what the blocks beside it gather,
  /// scatter, or both; -1: it has no step with both.
  struct Most {
    std::vector<int64_t> all, besideScatters, besideGathers, besideBoth;
    UnitPeaks::ByShare within = {}; ///< what parts of tied gradients add
  };
  UnitPeaks peaksOf(const std::vector<int64_t> &own, const Exchanged &exchanged,
                    const Most &most) const;
  UnitPeaks endsOf(std::vector<int64_t> own, const Exchanged &exchanged,
                   UnitPeaks::ByShare within = {}) const;
  std::shared_ptr<const UnitNeighbours> neighboursOf(const Exchanged &exchanged) const;
  std::vector<int64_t> ofBlocks(const std::vector<int64_t> &byBlock) const;
  /// Of a pass in the whole model's execution, by executed unit.
  struct PassMost {
    explicit PassMost(int units = 0)
        : plain(units), all(units), besideScatters(units), besideGathers(units),
          besideBoth(units, -1), end(units) {}
    std::vector<int64_t> plain; ///< with nothing stored in parts
    std::vector<int64_t> all, besideScatters, besideGathers, besideBoth;
    std::vector<int64_t> end; ///< after the last step
  };
  void addSteps(const ExecutedSteps &steps, const StoredLiveness &stored, const LiveBytes &live,
                int storing, PassMost of[2]) const;
  void addTemporaries(const ExecutedSteps &steps, const StoredLiveness &stored);
  StageTable termsOfOthers(const std::vector<TermOfOthers> &terms) const;
  template <typename Most>
  void addTemporaries(StageCall kind, int storing, const StoredLiveness &stored,
                      const std::vector<bool> &waits, const std::vector<Most> &units);
  void addPeaks(const ExecutedSteps &steps, const StoredLiveness &stored, const LiveBytes &live,
                const std::vector<int64_t> &forward, const std::vector<int64_t> &backward);
  bool addLive(const ExecutedSteps &steps, const std::vector<int64_t> &live,
               std::vector<int64_t> &forward, std::vector<int64_t> &backward) const;
  bool addLeaving(const ExecutedSteps &steps, const std::vector<int64_t> &live, int64_t left,
                  std::vector<int64_t> &forward, std::vector<int64_t> &backward) const;
  std::vector<UnitUse> usesOf(const Problem &problem, const ProblemFacts &facts,
                              const ExecutedSteps &steps) const;
  bool inStep(const std::vector<UnitUse> &uses) const;
  UnitUse wholeUse(const UnitUse &use) const;
  void addTransfers(const Problem &problem, const ProblemFacts &facts,
                    const RankExecution &execution, const sharding::Mesh &mesh);

  void addArguments(const Problem &problem, const ProblemFacts &facts, const ExecutedSteps &steps);
  std::vector<int> wholeReaders(const std::vector<int> &executedUnits, int copies) const;

  std::vector<OpId> cuts;
  StorageLevels levels;
  FoldedCuts executed; ///< what was executed; the same, unless it was folded
  std::vector<int> executedUnit;                     ///< by position
  std::vector<PassSeconds> sums, collectives, hosts; ///< of the units before, by unit
  std::vector<UnitUse> executedUses;                 ///< by units of the execution
  StageTable saved, remadeSaved, lateSaved, waiting;
  /// Of what is live in the whole model's execution, what isn't a stage's: of the forward pass
  /// before it, of the backward pass after it.
  StageTable before, after;
  std::vector<int> blockOfUnit; ///< by executed unit: what exchanges with it
  std::shared_ptr<const UnitBlocks> exchanging;
  /// Live in each unit, and temporaries of each call, by what ZeRO stores in parts.
  UnitPeaks mostForward[kStorings], mostBackward[kStorings], mostOf[kStorings][kStageCalls];
  /// How much less it is of a call's in the unit with which a stage begins, ends, or does both.
  struct InMessages {
    std::vector<int64_t> below, above, outside;
  };
  InMessages inMessages[kStorings][kStageCalls];
  /// What units have after their last step, as they scatter: in a call, and in the backward pass.
  UnitPeaks endOf[kStorings][kStageCalls], endBackward[kStorings];
  std::vector<int64_t> endInMessages[kStorings][kStageCalls]; ///< in the unit of a stage of one
  /// Of what is live in a call in the whole model's execution, what passes by a stage.
  StageTable passing[kStageCalls];
  StageTable othersTerms[kStageCalls]; ///< the same of terms of scattered gradients
  std::vector<int64_t> sentForward, sentBackward;
  std::vector<Readers> argumentReaders;
};

} // namespace dtc::plan
