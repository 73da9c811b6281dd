// Where the results of an execution's ops lie: in those of operands or in copies of their own.
#include "dtc/Plan/Predict/RankExecution.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Plan/AttentionParts.h"
#include "dtc/Plan/Plan/Materialization.h"

#include <algorithm>

namespace dtc::plan {

/// Experts of a rank of its own are computed by kernels that find rows where they are. Ranks that
/// share experts exchange rows, which lie in order then.
void RankExecution::findRows() {
  const bool hasRows = std::ranges::any_of(problem.ops, &Op::isGroupedProduct);
  if (hasRows && hasPlaces() && plan.degrees.ep == 1)
    stored = findStored(problem, facts, ExpertRows::InPlace);
}

bool RankExecution::exists(ValueId value) const {
  return stored.empty() ? work.exists(value) : stored[value];
}

/// Programs that run op by op make a new tensor for each result of all but the simplest ops.
bool RankExecution::writesInPlace(const Op &op) const {
  bool isLossGradient = op.kind == OpKind::Loss && op.backward;
  if (op.kind == OpKind::Elementwise || work.runsOpByOp())
    return op.kind == OpKind::Elementwise || (isLossGradient && isTakenApart(op.forward));
  return isLossGradient || op.kind == OpKind::Reduction || op.kind == OpKind::Normalization;
}

/// Attention of dtc's own programs on GPUs reads whole tensors, unless a library takes it by the
/// strides of a part. Any other part of a larger tensor is copied.
bool RankExecution::isCopiedPart(ValueId value, int64_t bytes, const std::vector<int> &from) const {
  if (from.size() != 1 || buffers[from[0]].bytes <= placedBytes(bytes) ||
      !model.isOwnProgram())
    return false;
  const std::vector<OpId> &readers = facts.consumers[value];
  return std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
    return problem.ops[reader].kind == OpKind::Attention &&
           (!isReadInPlace(problem, facts, reader, value) || gathersKeys(reader));
  });
}

} // namespace dtc::plan
