// Which groups of ranks become communicators by which call of ncclCommSplit.
//
// All ranks of a communicator call it together. Those that say the same color get a new one. So
// groups that have no rank in common are made by one call. Of a mesh dp=2, tp=2 these are two:
//
//   parent    0 1 2 3
//   split 0   0 1 | 2 3     groups along tp
//   split 1   0 2 | 1 3     groups along dp
#pragma once

#include "GroupLedger.h"

namespace dtc::rt::cuda {

struct GroupSplits {
  std::vector<int> parent;       ///< its ranks; empty where splitting saves nothing
  std::optional<GroupKey> whole; ///< the group that the parent is, where one has all of its ranks
  std::vector<std::vector<GroupKey>> rounds; ///< a group's color is its place in its round
};

/// From the groups that each rank needs. The same for all ranks. Left out are groups that some of
/// their ranks don't know of.
GroupSplits planSplits(const std::vector<std::vector<GroupKey>> &groupsOfRanks);

} // namespace dtc::rt::cuda
