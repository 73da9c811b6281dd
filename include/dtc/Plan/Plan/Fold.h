// Models of many equal layers, planned with a few of them.
//
// Layers in the middle of a model are alike: they have the same ops in the same order. They read
// values of their own layer, of the one before and the one after, or what all layers read. One of
// them then stands for most:
//
//   whole    0  1  2  3  4  5  6  7  8  9      a decoder of ten layers
//   folded   0  1  2  3 ------------- 8  9     its block 3 stands for 3 to 7
//
// Blocks 2, 3 and 8 are alike, too (4 and 5 of the folded model's own). So its figures tell how
// they go on from block to block. The two before and the one after may be planned otherwise. What
// is found for the folded model is carried over to the whole one through `ops` and `values`.
#pragma once

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

struct Folding {
  Problem problem;
  std::vector<Block> blocks; ///< of `problem`
  /// The block that stands for `copies` blocks of the whole model, its own and
  /// those after it; it has the same index in both.
  int repeated = 0;
  int copies = 1;
  /// By op and value of `problem`: the block to which it belongs, forward and
  /// backward, or -1.
  std::vector<int> opHome, valueHome;
  std::vector<OpId> wholeOps; ///< by op of `problem`: which of the whole model it is
  /// For how many a block of `problem` stands.
  int timesOf(int block) const { return block == repeated ? copies : 1; }
  // Of the whole model, what stands for each:
  std::vector<OpId> ops;
  std::vector<ValueId> values;
};

/// Units (of UnitCosts.h) of a folded model, `count` of which from `first` on are its
/// repeated block, within the units of the whole model.
struct FoldedUnits {
  int first = 0, count = 0, copies = 1;

  /// How far from its first one of the same runs of the whole model's units the run
  /// [a, b) is.
  int shift(int a, int b) const {
    bool inside = copies > 1 && a >= first && b <= first + copies * count;
    return inside ? (a - first) / count * count : 0;
  }
  bool repeats(int unit) const { return unit >= first && unit < first + count; }
  /// Which unit of the whole model one is; of a repeated one, in that copy.
  int at(int unit, int copy = 0) const {
    return unit < first ? unit : unit + (repeats(unit) ? copy : copies - 1) * count;
  }
};

struct FoldedCuts {
  std::vector<OpId> cuts; ///< of the folded model
  FoldedUnits units;
};

/// The same cuts, ops of the whole model, in the folded one. It is nullopt unless the blocks that
/// are alike are cut alike, and from each other.
std::optional<FoldedCuts> foldCuts(const Folding &folding, const std::vector<Block> &blocks,
                                   const std::vector<OpId> &cuts);

/// Which blocks of the folded model are recomputed, from those of the whole one;
/// nullopt where that differs among those that are alike.
std::optional<std::vector<BlockRecompute>>
foldRecomputation(const Folding &folding, const std::vector<BlockRecompute> &kinds);

/// nullopt where too few blocks are alike to be worth it.
std::optional<Folding> fold(const Problem &problem, const ProblemFacts &facts,
                            const std::vector<Block> &blocks);

/// A plan of the folded model in one stage, or without stages, for the whole one.
Plan unfold(const Folding &folding, const Problem &whole, Plan folded);

} // namespace dtc::plan
