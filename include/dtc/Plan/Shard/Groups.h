// Ops that are decided together: a forward op and the backward ops that belong
// to it, whose shardings are functions of the forward op's.
#pragma once

#include "dtc/Plan/Shard/Experts.h"

namespace dtc::plan {

struct Group {
  std::vector<OpId> ops; ///< the forward op first; an op of neither pass stands alone
  /// Values that its ops touch, in order of first appearance.
  std::vector<ValueId> values;
  int kind = 0; ///< groups of one kind differ only in which values they touch
};

/// Whether a value is made in the group and read outside of it.
bool leaves(const ProblemFacts &facts, const Group &group, ValueId value);

/// Whether an elementwise op of the forward pass makes what a normalization reads.
bool feedsNormalization(const Problem &problem, const ProblemFacts &facts, const Op &op);

/// Sums of gradients belong to no group: their terms come from several.
struct Groups {
  Groups(const Problem &problem, const ProblemFacts &facts);

  std::vector<Group> groups;
  std::vector<int> groupOf;        ///< by op; -1 for gradient sums
  std::vector<int> representative; ///< by kind: the first group of it
  Experts experts;
};

} // namespace dtc::plan
