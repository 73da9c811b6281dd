// Where to cut a model into pipeline stages: dynamic programming over units.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace dtc::plan {

/// Seconds of a stage made of the units [a, b), the `stage`-th; infinite where it doesn't fit. Of one
/// that takes longer than `limit`, anything above it may be said. A stage with more units may cost
/// less, as more blocks may hide ZeRO's sums of gradients. The cuts that are found then keep the
/// limit, but may not be the best.
using StagePrice = std::function<double(int a, int b, int stage, double limit)>;

/// The cuts 0 = c0 < c1 < ... < cn = units into `stages` runs whose most expensive one is cheapest.
/// Among those, the cuts whose second figure, the sum of squares, is least. Nothing where no cuts
/// have a finite price of at most `limit` a stage.
///
/// Equal layers may be cut unevenly: where the first unit is an embedding and
/// the last a large head, their stages get fewer layers.
std::optional<std::vector<int>> cutStages(int units, int stages, const StagePrice &price,
                                          double limit =
                                              std::numeric_limits<double>::infinity());

/// Whether there are cuts all of whose stages have a finite price of at most `limit`.
bool canCut(int units, int stages, const StagePrice &price,
            double limit = std::numeric_limits<double>::infinity());

/// Whether so many layers can be cut into stages as evenCuts does.
bool canBeEven(int64_t layers, int64_t stages);

/// Cuts into stages of equally many layers, which begin at the units `layers`. What is
/// before the first layer belongs to the first stage, what is behind the last one to the
/// last. Where only two layers more could be divided, these two ends count as a layer
/// each, as in BLOOM's training: 70 layers in 12 stages are 5, 10 times 6, and 5.
/// Nothing where neither can be divided.
std::optional<std::vector<int>> evenCuts(const std::vector<int> &layers, int units, int stages);

} // namespace dtc::plan
