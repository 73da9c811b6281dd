// The choices that a bundle of ops has on a mesh, and what each means.
//
// A choice shards the forward op. The batch is split by dp, and by ep except where experts run side
// by side (Experts.h). The sequence is split by cp. As to tp, it goes to one factor, passes a
// pending sum through, or leaves copies. Backward ops follow: a gradient is laid out as its value,
// ops inside follow their operands. On top, a bundle may be linear in its gradients. It may then
// take them still pending over a tp axis that the choice leaves unused, and pass them on. So terms
// from several readers are summed before one all-reduce.
//
// The product y[m,n] = x[m,k] w[k,n] has the choices, under tp alone:
//
//   tp on n   x whole      w in columns   y split    dx pending (a sum over n), dw split
//   tp on k   x split      w in rows      y pending  dx split, dw split
//   tp on m   x split      w whole        y split    dx split, dw pending
//   copies    x, w, y whole on all ranks
#pragma once

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Shard/OpBundles.h"
#include "dtc/Plan/Shard/TensorShardings.h"

namespace dtc::plan {

/// What a choice means outside of the bundle; values by their number in
/// OpBundle::values.
struct ChoiceOutcome {
  double seconds = 0; ///< of the ops and of the resharding among them
  double bytes = 0;   ///< of what the forward op makes, in memory
  std::vector<sharding::OpSharding> ops; ///< by OpBundle::ops
  std::vector<ShardingId> produced;        ///< -1: not made here
  /// TensorShardings in which values from outside, or made for outside, are read here.
  std::vector<std::vector<ShardingId>> required;
};

/// Whether an op is attention whose keys may go round the ranks of cp. Not where scores take a bias
/// or a window, of which each step would need another part. Nor where a causal mask doesn't begin
/// with the keys.
bool mayGoRound(const Op &op);

class Choices {
public:
  Choices(const Problem &problem, const ProblemFacts &facts, const OpBundles &bundles,
          const sharding::Mesh &mesh, TensorShardings &shardings, const OpWork &work,
          std::optional<bool> sequenceParallel, TensorWeights weights,
          ContextExchange contextExchange = ContextExchange::Keys);

  /// The outcomes of all choices of bundles of this kind, without those that look
  /// the same from outside and cost more.
  const std::vector<ChoiceOutcome> &outcomes(int kind);

  /// A value that nothing splits but dp, ep and cp.
  sharding::TensorSharding batchSharding(ValueId value) const;

private:
  using Assignment = std::pair<sharding::OpSharding, sharding::AxisList>;

  /// What goes to ranks of expert parallelism, and of context parallelism.
  enum class Across : uint8_t { Batch, Experts, Heads };
  sharding::OpSharding base(OpId op, Across across) const;
  std::vector<Assignment> acrossHeads(const OpBundle &bundle) const;
  std::vector<Assignment> aroundRing(const OpBundle &bundle) const;
  void assignTensor(const OpBundle &bundle, const Assignment &start,
                    std::vector<Assignment> &result) const;
  sharding::AxisList termAxes(const OpBundle &bundle) const;
  void passTerms(const OpBundle &bundle, std::vector<Assignment> &all) const;
  std::vector<Assignment> enumerate(const OpBundle &bundle) const;
  void extend(const OpBundle &bundle, const Assignment &assignment, const sharding::AxisList &axes,
              std::vector<Assignment> &result) const;
  size_t dividing(int64_t size) const;
  bool isWhole(const Op &op) const;
  bool maySplit(OpId op, sharding::FactorId factor) const;
  bool mustSplitSequence(const Op &op) const;
  void keepSplitWeights(OpId op, std::vector<Assignment> &all) const;

  const Problem &problem;
  const ProblemFacts &facts;
  const OpBundles &bundles;
  const sharding::Mesh &mesh;
  TensorShardings &shardings;
  const OpWork &work;
  std::optional<bool> sequenceParallel;
  TensorWeights weights;
  ContextExchange contextExchange;
  sharding::AxisList dataAxes, expertAxes, sequenceAxes, tensorAxes;
  std::map<int, std::vector<ChoiceOutcome>> cache;
};

} // namespace dtc::plan
