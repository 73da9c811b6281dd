// The groups of a role's ranks, as a program lists them.
#pragma once

#include "dtc/Sharding/Mesh.h"

#include "dtc-rt/Program_generated.h"

#include <map>
#include <memory>
#include <vector>

namespace dtc::lower {

/// Every list of axes that is asked for, as lists of world ranks. On <dp=2, tp=2> with the ranks 4
/// to 7, the axes {tp} are [[4, 5], [6, 7]], the axes {dp} are [[4, 6], [5, 7]].
class RankGroups {
public:
  /// `ranks` are those of the role, by position on the mesh. Both must outlive the groups.
  RankGroups(const sharding::Mesh &mesh, const std::vector<int32_t> &ranks)
      : mesh(mesh), ranks(ranks) {}

  /// The index of a group in the program.
  uint32_t find(const sharding::AxisList &axes);
  /// The same of a group whose lists are given: a rank of this role and ranks of other ones.
  uint32_t find(const std::vector<std::vector<int32_t>> &lists);
  /// All that were asked for, in the order of their indices.
  std::vector<std::unique_ptr<rt::fbs::GroupT>> take() { return std::move(groups); }

private:
  const sharding::Mesh &mesh;
  const std::vector<int32_t> &ranks;
  std::map<sharding::AxisList, uint32_t> known;
  std::map<std::vector<std::vector<int32_t>>, uint32_t> knownLists;
  std::vector<std::unique_ptr<rt::fbs::GroupT>> groups;
};

} // namespace dtc::lower
