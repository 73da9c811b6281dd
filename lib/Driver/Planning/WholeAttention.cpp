#include "WholeAttention.h"

#include "dtc/Dialect/Dist/Dist.h"

using namespace mlir;

namespace dtc::driver {

/// Whether a library computes attention on a rank's part as it is. It has no causal mask of queries
/// that begin somewhere, and parts of a head are another size.
static bool isComputedWhole(graph::AttentionOp op, const target::Target &target) {
  auto choice = op->getAttrOfType<dist::OpShardingAttr>(dist::DistDialect::kOp);
  const sharding::TensorFactors queries =
      cast<ShardingRuleOpInterface>(op.getOperation()).getShardingRule().operands[0];
  auto isSplit = [&](size_t dim) {
    return choice && llvm::any_of(queries[dim], [&](sharding::FactorId factor) {
             return !choice.getFactors()[factor].getNames().empty();
           });
  };
  return target.staysWhole(op) && !isSplit(3) && !(op.getCausal() && isSplit(1));
}

void keepWholeAttention(ModuleOp module, const target::Target &target) {
  module.walk([&](graph::AttentionOp op) {
    auto asked = op->getAttrOfType<dist::RecomputeAttr>(dist::DistDialect::kRecompute);
    if (asked && asked.getKind() == dist::Recompute::Selective && isComputedWhole(op, target))
      op->removeAttr(dist::DistDialect::kRecompute);
  });
}

} // namespace dtc::driver
