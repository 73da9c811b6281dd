// In which calls the ranks of a pipeline add up the gradients of one weight that several stages
// make.
//
// Floats are added in the order of stages, wherever these lie: of four stages (((a + b) + c) + d).
// A call adds what its ranks give in their order, and gives them all the sum. So a rank whose turn
// comes again begins another round, with the sum so far in front:
//
//   stages 0 1 2 3 on ranks 0 1 0 1   a + b   rank 0 gives a, rank 1 gives b
//                                     s + d   rank 0 gives (a + b) + c, rank 1 gives d
//   on ranks 0 1 1 0                  a + b   rank 0 gives a, rank 1 gives b
//                                     s + d   rank 1 gives (a + b) + c, rank 0 gives d
//   stages 0 1 2 on ranks 0 1 0       a + b   rank 0 gives a, rank 1 gives b
//                                     s + c   rank 1, which has no more terms, gives a + b
//   stages 0 3 on ranks 0 0           rank 0 adds a + d alone
//
// So every placement of the stages has the same bits, and a rank keeps nothing of other ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtc::schedule {

struct SumRound {
  /// In the order in which they are added. The first gives the sum of the round before, in which it
  /// took part, to which it has added its own terms. Each other one has one term, or none.
  std::vector<int64_t> ranks;
  /// Whose terms these are, ascending.
  std::vector<int64_t> stages;
  bool operator==(const SumRound &) const = default;
};

/// `stages`: ascending, those that make a term. `ranks`: of each. `holders`: ranks that need the
/// sum. To the last round they give zeros, if they have neither a term nor the sum so far.
std::vector<SumRound> sumRounds(std::span<const int64_t> stages, std::span<const int64_t> ranks,
                                std::span<const int64_t> holders);

} // namespace dtc::schedule
