// Ops that are decided together: a forward op and the backward ops that belong
// to it, whose shardings are functions of the forward op's.
#pragma once

#include "dtc/Plan/Shard/Experts.h"

namespace dtc::plan {

struct OpBundle {
  std::vector<OpId> ops; ///< the forward op first; an op of neither pass stands alone
  /// Values that its ops touch, in order of first appearance.
  std::vector<ValueId> values;
  int kind = 0; ///< bundles of one kind differ only in which values they touch
};

/// Whether a value is made in the bundle and read outside of it.
bool leaves(const ProblemFacts &facts, const OpBundle &bundle, ValueId value);

/// Whether an elementwise op of the forward pass makes what a normalization reads.
bool feedsNormalization(const Problem &problem, const ProblemFacts &facts, const Op &op);

/// Sums of gradients belong to no bundle: their terms come from several.
struct OpBundles {
  OpBundles(const Problem &problem, const ProblemFacts &facts);

  std::vector<OpBundle> bundles;
  std::vector<int> bundleOf;        ///< by op; -1 for gradient sums
  std::vector<int> representative; ///< by kind: the first bundle of it
  Experts experts;
};

} // namespace dtc::plan
