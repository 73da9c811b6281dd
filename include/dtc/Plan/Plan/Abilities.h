// What a training program can run of what a plan can say.
//
// PyTorch's FSDP, for one, has data parallelism alone, ZeRO-0, 2 and 3, and computes all layers
// again or none:
//
//   {.program = "fsdp",
//    .fixed = {.tp = 1, .pp = 1, .cp = 1, .ep = 1, .sp = false, .offload = Offload::None},
//    .zero = {0, 2, 3},
//    .recompute = {Recompute::None, Recompute::Full},
//    .mixesBlocks = false}
//
// A search that is given it finds no other plans. The default has no limits.
#pragma once

#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/Spec.h"

#include <algorithm>

namespace dtc::plan {

struct Abilities {
  std::string program = {}; ///< as messages call it
  Spec fixed = {};          ///< settings of which it has one value
  /// The values that it has; empty: all.
  std::vector<int> zero = {};
  std::vector<ScheduleKind> schedules = {};
  std::vector<Recompute> recompute = {};
  std::vector<Offload> offload = {};
  /// How many ranks share ZeRO's storage where not all do; none: any number.
  std::optional<int64_t> zeroGroup = {};
  /// Some layers may be stored or recomputed otherwise than others.
  bool mixesBlocks = true;
  bool evenStages = false;    ///< pp and chunks divide the layers
  bool wholeHeads = false;    ///< tp divides the heads of attention
  bool expertsNeedSp = false; ///< ep beside tp takes sp, too
  bool tensorNeedsSp = false; ///< tp takes sp, too
  /// Whether ZeRO's storage may be shared by fewer ranks than all of dp.
  bool groupsZero = true;

  bool hasLimits() const { return !program.empty(); }
  bool operator==(const Abilities &) const = default;
};

/// Whether a list of values has one, or has no limits.
template <typename T> bool isAble(const std::vector<T> &values, const T &value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

/// What of a SPEC the program can't run, one line each.
std::vector<std::string> unableTo(const Abilities &abilities, const Spec &asked);

/// Why it can't run degrees for a model with so many layers, or "".
std::string whyUnable(const Abilities &abilities, const Problem &problem, int64_t layers,
                      const Degrees &degrees);

/// Whether such degrees are run with sp alone.
bool needsSp(const Abilities &abilities, int64_t tp, int64_t ep);

/// A SPEC with what the program has no choice of.
Spec withFixed(const Abilities &abilities, Spec asked);

} // namespace dtc::plan
