// Which sizes belong together, and how small they may become.
//
// Atoms are independent factors of dimensions. A reshape of [b,s,h] to [(b s),h] says
//
//   unify([c], [b, s])     c, of b * s elements, is split into b and s
//
// Atoms that must be scaled by one ratio, as a slice and what it is cut from, are in one group.
// With them are all numbers that say where it is cut. Halves of 128 at 0 and 64 allow 4 with halves
// of 2.
//
// Numbers that counts of elements are compared with are scaled as what is counted, rounded down. Of
// 32 tokens, 64 choices, an expert takes 12. Of 8 tokens in the twin, 16 choices, it takes 3.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace dtc::twin {

using Atom = int;
using Atoms = llvm::SmallVector<Atom, 2>;

class SizeClasses {
public:
  /// Of a dimension before others know it; none for a size of 1.
  Atoms create(int64_t size);
  /// The atoms by which these are represented now, those that were split in their parts.
  Atoms resolve(llvm::ArrayRef<Atom> atoms);
  /// Two lists are the same elements. Those without a common refinement keep their sizes.
  void unify(llvm::ArrayRef<Atom> a, llvm::ArrayRef<Atom> b);
  void pin(llvm::ArrayRef<Atom> atoms);

  // After all have been unified.

  /// Both are scaled by one ratio, and so is `number`.
  void tie(Atom a, Atom b, int64_t number);
  /// A size that is a multiple of `number` stays one.
  void keepMultiple(llvm::ArrayRef<Atom> atoms, int64_t number);
  /// Shards of `axis` ranks, one after another from the major atom on, become those of fewer.
  struct Split {
    int64_t ranks, ranksInTwin;
  };
  void split(llvm::ArrayRef<Atom> atoms, llvm::ArrayRef<Split> axes);
  /// A number of 2 at least that counts of some elements are compared with stays so large.
  void limit(llvm::ArrayRef<Atom> counted, int64_t number);
  /// Each of the counted elements that a limit takes has a place.
  void placeCounted(llvm::ArrayRef<Atom> counted, llvm::ArrayRef<Atom> places);

  void solve();
  int64_t sizeOf(llvm::ArrayRef<Atom> atoms);
  int64_t sizeInTwin(llvm::ArrayRef<Atom> atoms);
  int64_t scaled(Atom atom, int64_t number);
  /// A number next to that of places stays next to it, as the last place does.
  int64_t limitInTwin(llvm::ArrayRef<Atom> counted, int64_t number);

private:
  struct State {
    int64_t size = 1;
    Atom parent = -1;
    Atoms parts; ///< of an atom that was split
    bool isPinned = false;
    int64_t multiple = 1;      ///< of what its size must be one
    std::vector<Split> splits; ///< products of axes
    // Of groups.
    Atom group = -1; ///< -1: its own
    int64_t divisor = 0, scale = 1;
  };
  Atom find(Atom atom);
  Atom groupOf(Atom atom) const;
  Atom add(int64_t size, bool isPinned);
  void join(Atom a, Atom b);
  bool fits(const State &state, int64_t size) const;
  bool isPossible(Atom group, int64_t scale) const;
  /// To the next scale that is possible, of the last of these atoms that isn't at its size.
  bool grow(llvm::ArrayRef<Atom> atoms);
  void fitLimits();
  int64_t inProportion(llvm::ArrayRef<Atom> counted, int64_t number);

  struct Limit {
    Atoms counted;
    int64_t number;
  };
  struct Places {
    Atoms counted, atoms;
  };
  std::vector<State> states;
  std::vector<std::vector<Atom>> members; ///< of groups
  std::vector<Limit> limits;
  std::vector<Places> places;
};

/// Sizes of axes that are as different as these, in ascending order. What they divide, those of the
/// twin divide. Where one divides the next, it does so there. One size becomes its smallest prime
/// factor; 4, 16 and 32 become 2, 4 and 8; 48 and 64 become 3 and 4.
std::vector<int64_t> smallAxes(llvm::ArrayRef<int64_t> ascending);

} // namespace dtc::twin
