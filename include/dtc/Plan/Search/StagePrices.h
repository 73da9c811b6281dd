// What the dynamic program over cuts asks of a stage: its seconds in a step, with
// as few blocks recomputed as its memory allows.
//
// Take a stage of units 3 to 10 whose rank has room for 20 GB and holds four microbatches at once.
// Kept whole they take 4 x 6 GB, with the first block recomputed 4 x 5.2, with two 4 x 4.4. So
// units up to the end of the second block are recomputed, and the others keep what they have. A
// third block is, too, where next to nothing would be left free. (The first blocks are the last of
// the backward pass: when they are computed again, the others have let go of what they kept.
// Megatron-LM calls this --recompute-method block.)
#pragma once

#include "dtc/Plan/Predict/StageCosts.h"

#include <algorithm>

namespace dtc::plan {

/// Share of the memory that recomputation leaves free where it can. Predictions are off by a few
/// percent, and a block more costs less than running out of memory.
constexpr double kSpareMemory = 0.03;

class StagePrices {
public:
  /// `recomputed`: the same units with all blocks recomputed; null: blocks are as
  /// `costs` has them.
  StagePrices(StageCosts &costs, const Degrees &degrees, const UnitCosts &unitCosts,
              const std::vector<Block> &blocks, const UnitCosts *recomputed);
  StagePrices(const StagePrices &) = delete;

  using InFlight = StageCosts::InFlight;
  struct Price {
    double seconds = 0;
    StageRun run;
  };
  /// Of the units [a, b) on a rank with `budget` bytes that holds so many
  /// microbatches at once; nothing where it is too small.
  std::optional<Price> operator()(int a, int b, const InFlight &held, double budget);
  /// The price's seconds; infinite where it is too small. More than `limit` may be less than it is.
  double seconds(int a, int b, const InFlight &held, double budget, double limit);
  /// Where blocks that may be recomputed end among these units. Of one that goes on in the next
  /// stage, the part that is here ends with them.
  std::vector<int> blockEnds(int begin, int end) const;
  /// Whether there are units of one block before a cut and behind it.
  bool isWithinBlock(int cut) const;

private:
  /// With the fewest blocks recomputed that keep to a budget; `seconds` infinite: nothing does.
  struct Kept {
    InFlight held;
    double budget = 0, seconds = 0;
    int kept = 0;
  };
  /// What doesn't depend on what is recomputed, and what was found of all else.
  struct Stage {
    double seconds = 0; ///< but for the input gradient calls
    simulate::Work inputGrad;
    double bytes = 0, updateBytes = 0;
    double secondsWhole = 0; ///< with nothing recomputed, as all below
    /// The bytes with one microbatch in flight, and those that each further one adds.
    struct Whole {
      double bytes = -1, slot = 0; ///< -1: not known yet
    };
    Whole whole[2]; ///< by whether the backward pass is split
    std::vector<Kept> found;
  };
  Stage &stageOf(const StageRun &run);
  double leastSeconds(int a, int b) const;
  void price(Stage &entry, const StageRun &run) const;
  Stage *&knownStage(int a, int b) {
    std::vector<Stage *> &row = plain[a];
    auto length = static_cast<size_t>(b - a);
    if (row.size() <= length)
      row.resize(length + 1);
    return row[length];
  }
  Stage &plainStage(int a, int b) {
    Stage *&known = knownStage(a, b);
    return known ? *known : *(known = &stageOf({a, b}));
  }
  /// As FoldedUnits::shift.
  int shift(int a, int b) const { return b <= repeatedEnd ? shifts[a] : 0; }
  std::optional<Price> find(int a, int b, const InFlight &held, double budget);
  const Kept &keptOf(int a, int b, const InFlight &held, double budget);
  std::optional<Price> within(StageRun run, const InFlight &held, double room);
  double bytes(const Stage &stage, const StageRun &run, const InFlight &held) const;
  double seconds(const Stage &stage, const StageRun &run) const;
  /// With nothing recomputed.
  double bytesWhole(Stage &stage, const StageRun &run, const InFlight &held) const;

  const StageCosts &costs;
  const UnitCosts &unitCosts;
  const Degrees &degrees;
  int units;
  /// Stages of as many of the repeated units cost the same. By begin: how far from the first of
  /// these the stages are that end with the last of them at most.
  std::vector<int> shifts;
  int repeatedEnd;
  std::vector<int> begins, ends; ///< of blocks, in units
  bool recomputes;               ///< some of them
  FlatMap<Stage> stages; ///< by begin and end: few are asked for
  std::vector<std::vector<Stage *>> plain; ///< of these, by begin and length; null: unknown
};

} // namespace dtc::plan
