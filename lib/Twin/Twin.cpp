#include "dtc/Twin/Twin.h"

#include "Dimensions.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::twin {
namespace {

/// Gives a copy of a planned module its small shapes.
class Shrinker {
public:
  explicit Shrinker(ModuleOp module) : module(module), dimensions(module) {}

  LogicalResult run() {
    if (failed(dimensions.find()))
      return failure();
    noteRules();
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(retype(function)))
        return failure();
    for (auto parameter : llvm::make_early_inc_range(module.getOps<ParameterOp>()))
      parameter.erase(); // they have shapes of files
    shrinkMesh();
    for (auto function : module.getOps<func::FuncOp>())
      annotateIndexLimits(function);
    return failed(verify(module)) ? failure() : compareRules();
  }

  std::string describeMesh() {
    std::string text;
    for (const sharding::MeshAxis &axis : dist::toMesh(meshOp()).axes)
      text += (text.empty() ? "" : " ") + axis.name + "=" + std::to_string(axis.size);
    auto devices = meshOp()->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
    DenseSet<Attribute> ranks;
    if (devices)
      ranks.insert_range(devices);
    return ranks.empty() ? text : text + " pp=" + std::to_string(ranks.size());
  }
  int64_t microbatches(int64_t before) { return dimensions.microbatchesInTwin(before); }

private:
  dist::MeshOp meshOp() { return *module.getOps<dist::MeshOp>().begin(); }

  LogicalResult retype(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      retype(argument);
    for (Operation &op : function.front().without_terminator()) {
      if (failed(retype(&op)))
        return failure();
    }
    function.setType(
        FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                          llvm::to_vector(function.front().getTerminator()->getOperandTypes())));
    return success();
  }

  void retype(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    value.setType(type.clone(dimensions.shapeInTwin(value)));
  }

  LogicalResult retype(Operation *op) {
    Builder builder(op->getContext());
    auto offsets = [&](Value of, ArrayRef<int64_t> before) {
      SmallVector<int64_t> after;
      for (auto [i, offset] : llvm::enumerate(before))
        after.push_back(dimensions.offsetInTwin(of, i, offset));
      return builder.getDenseI64ArrayAttr(after);
    };
    if (auto slice = dyn_cast<SliceOp>(op))
      slice.setOffsetsAttr(offsets(slice.getInput(), slice.getOffsets()));
    if (auto pad = dyn_cast<PadOp>(op))
      pad.setLowAttr(offsets(pad.getResult(), pad.getLow()));
    auto constant = dyn_cast<arith::ConstantOp>(op);
    if (constant && failed(shrink(constant)))
      return failure();
    for (OpResult result : op->getResults())
      retype(result);
    return success();
  }

  /// The first elements along each dimension.
  LogicalResult shrink(arith::ConstantOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    auto small = type.clone(dimensions.shapeInTwin(op.getResult()));
    auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
    if (small == type)
      return success();
    if (!elements)
      return op.emitOpError() << "holds a form of constant that can't be cut";
    if (elements.isSplat()) {
      op.setValueAttr(elements.resizeSplat(small));
      return success();
    }
    auto all = elements.getValues<Attribute>();
    SmallVector<Attribute> kept;
    for (int64_t i = 0; i < small.getNumElements(); ++i) {
      int64_t rest = i, position = 0, stride = 1;
      for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
        position += rest % small.getShape()[dim] * stride;
        rest /= small.getShape()[dim];
        stride *= type.getShape()[dim];
      }
      kept.push_back(all[position]);
    }
    op.setValueAttr(DenseElementsAttr::get(small, kept));
    return success();
  }

  /// Devices are numbered anew, rank by rank of the pipeline.
  void shrinkMesh() {
    dist::MeshOp op = meshOp();
    Builder builder(op.getContext());
    SmallVector<int64_t> sizes;
    for (int64_t size : op.getSizes())
      sizes.push_back(dimensions.axisInTwin(size));
    op.setSizes(sizes);
    auto devices = op->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
    if (!devices)
      return;
    int64_t size = dist::toMesh(op).devices();
    DenseMap<Attribute, int64_t> ranks;
    SmallVector<Attribute> stages;
    for (Attribute stage : devices) {
      int64_t rank = ranks.try_emplace(stage, ranks.size()).first->second;
      stages.push_back(builder.getDenseI64ArrayAttr(
          llvm::to_vector(llvm::seq<int64_t>(rank * size, (rank + 1) * size))));
    }
    op->setAttr(dist::DistDialect::kDevices, builder.getArrayAttr(stages));
  }

  /// A rule without its sizes: what an op's dist.op counts on.
  static std::string structureOf(Operation *op) {
    sharding::ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    for (sharding::Factor &factor : rule.factors)
      factor.size = 0;
    return rule.str();
  }

  void noteRules() {
    module.walk([&](Operation *op) {
      if (op->hasAttr(dist::DistDialect::kOp))
        rules.emplace_back(op, structureOf(op));
    });
  }

  LogicalResult compareRules() {
    for (const auto &[op, structure] : rules)
      if (structureOf(op) != structure)
        return op->emitOpError() << "has other factors when its dimensions are small: "
                                 << structureOf(op);
    return success();
  }

  ModuleOp module;
  Dimensions dimensions;
  std::vector<std::pair<Operation *, std::string>> rules;
};

} // namespace

static double argumentBytes(ModuleOp module) {
  double bytes = 0;
  for (auto function : module.getOps<func::FuncOp>())
    for (Type type : function.getArgumentTypes())
      bytes += double(cast<RankedTensorType>(type).getNumElements());
  return bytes;
}

Twin makeTwin(ModuleOp planned, int64_t microbatches) {
  Twin twin;
  ScopedDiagnosticHandler handler(planned.getContext(), [&](Diagnostic &diagnostic) {
    if (twin.reason.empty())
      twin.reason = diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> copy = planned.clone();
  Shrinker shrinker(*copy);
  if (failed(shrinker.run()))
    return twin;
  twin.reason.clear();
  twin.mesh = shrinker.describeMesh();
  twin.microbatches = shrinker.microbatches(microbatches);
  twin.shrinkage = argumentBytes(*copy) / std::max(1.0, argumentBytes(planned));
  twin.module = std::move(copy);
  return twin;
}

} // namespace dtc::twin
