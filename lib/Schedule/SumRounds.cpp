#include "dtc/Schedule/SumRounds.h"

#include <algorithm>

namespace dtc::schedule {

static bool contains(const std::vector<int64_t> &ranks, int64_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// Has a rank that needs the sum, and has the one so far, give that. Otherwise it gave zeros.
static void passOn(const SumRound &before, SumRound &last) {
  auto passes = std::find_if(last.ranks.begin() + int64_t(last.stages.size()), last.ranks.end(),
                             [&](int64_t rank) { return contains(before.ranks, rank); });
  if (passes != last.ranks.end())
    std::rotate(last.ranks.begin(), passes, passes + 1);
}

std::vector<SumRound> sumRounds(std::span<const int64_t> stages, std::span<const int64_t> ranks,
                                std::span<const int64_t> holders) {
  std::vector<SumRound> rounds(1);
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool isAlone = rounds.back().ranks == std::vector<int64_t>{ranks[i]};
    if (!isAlone && contains(rounds.back().ranks, ranks[i]))
      rounds.emplace_back();
    if (!isAlone)
      rounds.back().ranks.push_back(ranks[i]);
    rounds.back().stages.push_back(stages[i]);
  }
  SumRound &last = rounds.back();
  const bool isOneEach = last.ranks.size() == last.stages.size();
  for (int64_t holder : holders)
    if (!contains(last.ranks, holder))
      last.ranks.push_back(holder);
  if (rounds.size() > 1 && isOneEach)
    passOn(rounds[rounds.size() - 2], last);
  return rounds;
}

} // namespace dtc::schedule
