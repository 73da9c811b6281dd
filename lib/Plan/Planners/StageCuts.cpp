#include "StageCuts.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

namespace {

/// The best way to cut a beginning of the units.
struct Prefix {
  double most = kInfinity;
  double squares = 0;
  int last = -1; ///< where its last stage begins

  bool operator<(const Prefix &other) const {
    if (most != other.most)
      return most < other.most;
    return squares < other.squares;
  }
};

} // namespace

/// Every stage takes as much as it can below the limit, but leaves a unit for each
/// one after it. The dearest one's price; infinite where that doesn't take all units.
static double pack(int units, int stages, const StagePrice &price, double limit) {
  int begin = 0;
  double most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    int end = begin;
    double cost = 0;
    for (; end < units - (stages - stage - 1); ++end) {
      double longer = price(begin, end + 1, stage);
      if (longer > limit || !std::isfinite(longer))
        break;
      cost = longer;
    }
    if (end == begin)
      return kInfinity;
    most = std::max(most, cost);
    begin = end;
  }
  return begin == units ? most : kInfinity;
}

bool canCut(int units, int stages, const StagePrice &price) {
  return std::isfinite(pack(units, stages, price, kInfinity));
}

/// What some cuts achieve, close to the least: stages that cost more needn't be
/// looked at.
static double nearLeast(int units, int stages, const StagePrice &price, double limit) {
  constexpr double close = 1.01;
  double above = pack(units, stages, price, limit);
  for (double below = 0; std::isfinite(above) && above > close * below;) {
    double middle = below > 0 ? (below + above) / 2 : above / 2;
    double found = pack(units, stages, price, middle);
    (found <= middle ? above : below) = std::min(found, middle);
  }
  return std::min(above, limit);
}

std::optional<std::vector<int>> cutStages(int units, int stages, const StagePrice &price,
                                          double limit) {
  if (stages < 1 || units < stages)
    return std::nullopt;
  limit = nearLeast(units, stages, price, limit);
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
        if (before.most == kInfinity)
          continue;
        Prefix whole{std::max(before.most, cost), before.squares + cost * cost, begin};
        if (whole.most < kInfinity && whole < best[stage][end])
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
