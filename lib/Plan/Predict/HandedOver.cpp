// What a stage hands over to the next one of its rank.
#include "dtc/Plan/Predict/UnitCosts.h"

#include <algorithm>

namespace dtc::plan {

int64_t UnitCosts::slotBytesOver(int cut, int a, int b, bool splits) const {
  int64_t bytes = 0;
  const FoldedUnits &fold = executed.units;
  auto add = [&](const UnitUse &use, int shift) {
    auto any = [&](const std::vector<int> &of, int begin, int end) {
      auto first = std::ranges::lower_bound(of, begin - shift);
      return first != of.end() && *first < end - shift;
    };
    const bool isBefore = use.writer < cut - shift;
    const bool crosses = use.forwardWriter ? isBefore && any(use.forward, cut, units())
                                           : !isBefore && !use.isTerm && any(use.backward, 0, cut);
    const bool isRemade = use.isStatic || (use.remadeFrom >= 0 && use.remadeFrom >= a - shift &&
                                           use.remadeTo < b - shift);
    const bool isKept =
        use.forwardWriter ? any(use.backward, a, b) && !isRemade : splits && any(use.late, a, b);
    // A stage that computes again what reads a value has kept what it received of it.
    const bool isReceived = use.isCopy && isBefore && cut <= a && any(use.backward, a, b);
    bytes += isReceived || (crosses && isKept) ? use.bytes : 0;
  };
  for (const UnitUse &use : executedUses)
    if (fold.copies == 1 || !fold.repeats(use.writer))
      add(fold.copies == 1 ? use : wholeUse(use), 0);
    else
      for (int copy = 0; copy < fold.copies; ++copy)
        add(use, copy * fold.count);
  return bytes;
}

} // namespace dtc::plan
