#include "dtc/Plan/Solve/StageCuts.h"

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

/// The last of the ends [first, last] for which it holds, looked at from near `guess`. It holds for
/// none after one for which it doesn't. first - 1: there is none.
template <typename Holds> static int lastThat(int first, int last, int guess, Holds holds) {
  if (first > last)
    return first - 1;
  guess = std::clamp(guess, first, last);
  int good = first - 1, bad = last + 1;
  for (int step = 1; good + 1 < bad;) {
    (holds(guess) ? good : bad) = guess;
    if (good >= first && bad <= last) { // on both sides: halve
      guess = good + (bad - good) / 2;
    } else {
      guess = good >= first ? std::min(last, good + step) : std::max(first, bad - step);
      step *= 2;
    }
  }
  return good;
}

/// Every stage takes as much as it can below the limit, but leaves a unit for each
/// one after it. The dearest one's price; infinite where that doesn't take all units.
/// `ends`: where each ends; as many units as the one before it are tried first.
static double pack(int units, int stages, const StagePrice &price, double limit,
                   std::vector<int> *ends = nullptr) {
  int begin = 0, length = units / stages;
  double most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    double cost = kInfinity; // of the last that holds
    int end = lastThat(begin + 1, units - (stages - stage - 1), begin + length, [&](int at) {
      double seconds = price(begin, at, stage, limit);
      bool holds = seconds <= limit && std::isfinite(seconds);
      if (holds)
        cost = seconds;
      return holds;
    });
    if (end == begin)
      return kInfinity;
    most = std::max(most, cost);
    length = end - begin;
    begin = end;
    if (ends)
      ends->push_back(end);
  }
  return begin == units ? most : kInfinity;
}

/// The same from the end: by stage, the first unit with which it can begin.
static std::vector<int> packBackwards(int units, int stages, const StagePrice &price,
                                      double limit) {
  std::vector<int> begins(stages);
  int end = units, length = units / stages;
  for (int stage = stages; stage-- > 0;) {
    auto fits = [&](int taken) { return price(end - taken, end, stage, limit) <= limit; };
    length = lastThat(1, end - stage, length, fits);
    begins[stage] = end -= length;
  }
  return begins;
}

bool canCut(int units, int stages, const StagePrice &price, double limit) {
  return std::isfinite(pack(units, stages, price, limit));
}

/// What some cuts achieve, close to the least: stages that cost more needn't be looked at.
/// `ends`: where their stages end, as packing within it again may find none where a longer
/// stage costs less. Infinite where no cuts keep the limit.
static double nearLeast(int units, int stages, const StagePrice &price, double limit,
                        std::vector<int> &ends) {
  constexpr double close = 1.01;
  double above = pack(units, stages, price, limit, &ends);
  for (double below = 0; std::isfinite(above) && above > close * below;) {
    double middle = below > 0 ? (below + above) / 2 : above / 2;
    std::vector<int> closer;
    if (double found = pack(units, stages, price, middle, &closer); found <= middle) {
      above = found;
      ends = std::move(closer);
    } else {
      below = middle;
    }
  }
  return above;
}

std::optional<std::vector<int>> cutStages(int units, int stages, const StagePrice &price,
                                          double limit) {
  if (stages < 1 || units < stages)
    return std::nullopt;
  // A stage ends no later than where those up to it reach, and no earlier than where
  // those after it can begin.
  std::vector<int> latest;
  limit = nearLeast(units, stages, price, limit, latest);
  if (!std::isfinite(limit))
    return std::nullopt;
  std::vector<int> earliest = packBackwards(units, stages, price, limit);
  earliest.push_back(units);
  latest.insert(latest.begin(), 0);
  for (int stage = 0; stage <= stages; ++stage) // where a longer stage costs less
    earliest[stage] = std::min(earliest[stage], latest[stage]);
  std::vector<std::vector<Prefix>> best(stages + 1); // by stages, and end from the earliest
  best[0] = {{0, 0, -1}};
  for (int stage = 1; stage <= stages; ++stage) {
    best[stage].resize(latest[stage] - earliest[stage] + 1);
    for (int end = earliest[stage]; end <= latest[stage]; ++end) {
      Prefix &whole = best[stage][end - earliest[stage]];
      for (int begin = std::min(end - 1, latest[stage - 1]); begin >= earliest[stage - 1];
           --begin) {
        const Prefix &before = best[stage - 1][begin - earliest[stage - 1]];
        double cost = price(begin, end, stage - 1, limit);
        if (cost > whole.most || cost > limit || !std::isfinite(cost))
          break; // longer ones are no better
        Prefix found{std::max(before.most, cost), before.squares + cost * cost, begin};
        if (found.most < kInfinity && found < whole)
          whole = found;
      }
    }
  }
  std::vector<int> cuts = {units};
  for (int stage = stages; stage > 0; --stage) {
    int last = best[stage][cuts.back() - earliest[stage]].last;
    if (last < 0)
      return std::nullopt;
    cuts.push_back(last);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

/// How many layers the model's two ends count as, each: one only where that is needed.
static int64_t layersOfEnds(int64_t layers, int64_t stages) { return layers % stages == 0 ? 0 : 1; }

bool canBeEven(int64_t layers, int64_t stages) {
  if (stages < 2)
    return false;
  int64_t ends = layersOfEnds(layers, stages), counted = layers + 2 * ends;
  return counted % stages == 0 && counted / stages > ends;
}

std::optional<std::vector<int>> evenCuts(const std::vector<int> &layers, int units, int stages) {
  auto count = static_cast<int64_t>(layers.size());
  if (!canBeEven(count, stages))
    return std::nullopt;
  int64_t ends = layersOfEnds(count, stages), each = (count + 2 * ends) / stages;
  std::vector<int> cuts = {0};
  for (int64_t stage = 1; stage < stages; ++stage)
    cuts.push_back(layers[stage * each - ends]);
  cuts.push_back(units);
  return cuts;
}

} // namespace dtc::plan
