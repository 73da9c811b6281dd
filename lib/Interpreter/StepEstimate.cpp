// How long a step is interpreted.
#include "dtc/Interpreter/Step.h"

#include "Decisions.h"
#include "Evaluator.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Graph/StepFunctions.h"

using namespace mlir;

namespace dtc::interpreter {

/// Measured on a core of 2025, with layer ops of some five parts.
static constexpr double kSecondsPerOp = 8e-6, kSecondsPerElement = 5e-9;

static double elementsOf(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}

// Contractions visit their whole iteration space, attention that of its scores and products.
double productsOf(Operation *op) {
  if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
    return 5 * elementsOf(op->getOperand(0)) * double(graph::shapeOf(op->getOperand(1))[1]);
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled || !isa<graph::ContractOp, graph::GroupedContractOp, graph::ConvOp,
                     graph::ConvInputGradOp, graph::ConvWeightGradOp>(op))
    return 0;
  double space = 1;
  for (const sharding::Factor &factor : ruled.getShardingRule().factors)
    space *= double(factor.size);
  return space;
}

static double elementsOf(Operation *op) {
  double elements = productsOf(op);
  for (Value value : op->getOperands())
    elements += elementsOf(value);
  for (Value value : op->getResults())
    elements += elementsOf(value);
  return elements;
}

double estimatedSeconds(ModuleOp global, const StepOptions &options) {
  auto meshes = global.getOps<dist::MeshOp>();
  double ranks = meshes.empty() ? 1 : double(dist::toMesh(*meshes.begin()).devices());
  double seconds = 0;
  for (auto function : global.getOps<func::FuncOp>()) {
    bool isPass = graph::runsPerMicrobatch(function);
    const int64_t updates =
        function.getSymName() == graph::kUpdate ? 3 : 1; // with other gradients, too
    auto calls = double(isPass ? std::min<int64_t>(options.microbatches, 2) : updates);
    for (Operation &op : function.front().without_terminator())
      seconds += calls * (1 + ranks) * (kSecondsPerOp + kSecondsPerElement * elementsOf(&op));
  }
  return seconds * Decisions(global).leastDraws();
}

} // namespace dtc::interpreter
