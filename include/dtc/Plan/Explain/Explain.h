// Why a plan was chosen: what the others lose, and where.
//
// For 64 GPUs and `--plan tp=8` say
//
//   chosen       dp=4 tp=8 pp=2 zero=1
//   runner-up    dp=8 tp=8 zero=1              1.2 % slower: +0.3 s exposed over dp
//   one change   recompute=none                doesn't fit, 21 GB short
//   pin          tp=8 costs 3.1 %              without it dp=8 tp=4 pp=2 zero=1
//
// All of it comes from the search itself, run again with one thing different.
#pragma once

#include "dtc/Plan/Explain/Compare.h"
#include "dtc/Plan/Search/Search.h"

namespace dtc::plan {

/// Another plan beside the chosen one.
struct Rival {
  Degrees degrees;
  double stepSeconds = 0;
  Difference difference; ///< against the chosen plan
  bool fits() const { return difference.shortBytes == 0; }
};

/// The chosen plan with one decision taken otherwise. The rest is kept as far as that goes: data
/// parallelism takes what tensor or pipeline parallelism leaves.
struct Change {
  std::string setting; ///< as in a SPEC: "recompute=none"
  std::optional<Rival> rival;
  std::optional<SearchFailure> refusal; ///< why there is no such plan, without a rival
};

/// What pinning one key by hand costs.
struct PinPrice {
  std::string pin; ///< "tp=8"
  /// The best plan without the pin; nothing where that is the chosen plan or no
  /// faster: the pin is free.
  std::optional<Rival> without;
  std::string instead; ///< what that plan has for the key: "tp=4"
};

struct Explanation {
  Degrees chosen;
  Prediction predicted;
  std::vector<Rival> runnersUp; ///< best first
  std::vector<Change> changes;  ///< of what the user left open
  std::vector<PinPrice> pins;
  /// The best plan without any pin, where that is faster.
  std::optional<Rival> unpinned;
};

/// Explains what `search(problem, cluster, options)` chose: one search for each
/// key that is pinned, and a plan for each change.
Explanation explain(const Problem &problem, const Cluster &cluster, const SearchOptions &options,
                    const SearchResult &chosen);

} // namespace dtc::plan
