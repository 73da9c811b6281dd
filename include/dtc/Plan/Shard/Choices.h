// The choices that a group of ops has on a mesh, and what each means.
//
// A choice shards the forward op: dp splits the batch, and so does ep except where
// experts run side by side (Experts.h), cp the sequence, tp goes to
// one factor, passes a pending sum through, or leaves copies. Backward ops follow:
// a gradient is laid out as its value, ops inside follow their operands. On
// top, a group that is linear in its gradients may take them still pending over
// a tp axis that the choice leaves unused, and pass them on (so that terms from
// several readers are summed before one all-reduce).
#pragma once

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Shard/Groups.h"
#include "dtc/Plan/Shard/Layouts.h"

namespace dtc::plan {

/// What a choice means outside of the group; values by their number in
/// Group::values.
struct Effect {
  double seconds = 0; ///< of the ops and of the resharding among them
  double bytes = 0;   ///< of what the forward op makes, in memory
  std::vector<sharding::OpSharding> ops; ///< by Group::ops
  std::vector<LayoutId> produced;        ///< -1: not made here
  /// Layouts in which values from outside, or made for outside, are read here.
  std::vector<std::vector<LayoutId>> required;
};

class Choices {
public:
  Choices(const Problem &problem, const ProblemFacts &facts, const Groups &groups,
          const sharding::Mesh &mesh, Layouts &layouts, const OpWork &work,
          std::optional<bool> sequenceParallel);

  /// The effects of all choices of groups of this kind, without those that look
  /// the same from outside and cost more.
  const std::vector<Effect> &effects(int kind);

  /// A value that nothing splits but dp, ep and cp.
  sharding::TensorSharding batchLayout(ValueId value) const;

private:
  using Assignment = std::pair<sharding::OpSharding, sharding::AxisList>;

  sharding::OpSharding base(OpId op, bool acrossExperts) const;
  void assignTensor(const Group &group, const Assignment &start,
                    std::vector<Assignment> &result) const;
  std::vector<Assignment> enumerate(const Group &group) const;
  void extend(const Group &group, const Assignment &assignment, const sharding::AxisList &axes,
              std::vector<Assignment> &result) const;
  size_t dividing(int64_t size) const;
  bool isWhole(const Op &op) const;
  bool maySplit(OpId op, sharding::FactorId factor) const;
  bool mustSplitSequence(const Op &op) const;

  const Problem &problem;
  const ProblemFacts &facts;
  const Groups &groups;
  const sharding::Mesh &mesh;
  Layouts &layouts;
  const OpWork &work;
  std::optional<bool> sequenceParallel;
  sharding::AxisList dataAxes, expertAxes, sequenceAxes, tensorAxes;
  std::map<int, std::vector<Effect>> cache;
};

} // namespace dtc::plan
