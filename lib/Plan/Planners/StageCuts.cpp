#include "StageCuts.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

namespace {

/// The best way to cut a beginning of the units.
struct Prefix {
  double most = std::numeric_limits<double>::infinity();
  double squares = 0;
  int last = -1; ///< where its last stage begins

  bool operator<(const Prefix &other) const {
    if (most != other.most)
      return most < other.most;
    return squares < other.squares;
  }
};

} // namespace

/// Every stage takes as much as it can, but leaves a unit for each one after it.
bool canCut(int units, int stages, const StagePrice &price) {
  int begin = 0;
  for (int stage = 0; stage < stages; ++stage) {
    int end = begin;
    while (end < units - (stages - stage - 1) && std::isfinite(price(begin, end + 1, stage)))
      ++end;
    if (end == begin)
      return false;
    begin = end;
  }
  return begin == units;
}

std::optional<std::vector<int>> cutStages(int units, int stages, const StagePrice &price,
                                          double limit) {
  if (stages < 1 || units < stages)
    return std::nullopt;
  std::vector<std::vector<Prefix>> best(stages + 1, std::vector<Prefix>(units + 1));
  best[0][0] = {0, 0, -1};
  for (int stage = 1; stage <= stages; ++stage) {
    // Every later stage takes at least one unit; the last one takes all that are left.
    for (int end = stage == stages ? units : stage; end <= units - (stages - stage); ++end)
      for (int begin = stage == 1 ? 0 : end - 1; begin >= stage - 1; --begin) {
        const Prefix &before = best[stage - 1][begin];
        double cost = price(begin, end, stage - 1);
        if (cost > best[stage][end].most || cost > limit || !std::isfinite(cost))
          break; // longer ones are no better
        if (before.most == std::numeric_limits<double>::infinity())
          continue;
        Prefix whole{std::max(before.most, cost), before.squares + cost * cost, begin};
        if (whole.most < std::numeric_limits<double>::infinity() && whole < best[stage][end])
          best[stage][end] = whole;
      }
  }
  if (best[stages][units].last < 0)
    return std::nullopt;
  std::vector<int> cuts = {units};
  for (int stage = stages; stage > 0; --stage)
    cuts.push_back(best[stage][cuts.back()].last);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

} // namespace dtc::plan
