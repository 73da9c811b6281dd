#include "dtc/Twin/Twin.h"

#include "Dimensions.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::twin {
namespace {

/// Gives a copy of a planned module its small shapes.
class Shrinker {
public:
  Shrinker(ModuleOp module, Axes axes, int64_t headMultiple)
      : module(module), modules(onMeshes(module)), dimensions(modules, axes, headMultiple) {}

  LogicalResult run() {
    if (failed(dimensions.find()))
      return failure();
    noteRules();
    for (ModuleOp onMesh : modules) {
      for (auto function : onMesh.getOps<func::FuncOp>())
        if (failed(retype(function)))
          return failure();
      for (auto parameter : llvm::make_early_inc_range(onMesh.getOps<ParameterOp>()))
        parameter.erase(); // they have shapes of files
    }
    shrinkMeshes();
    shrinkLimits();
    for (ModuleOp onMesh : modules)
      for (auto function : onMesh.getOps<func::FuncOp>())
        annotateIndexLimits(function);
    return failed(verify(module)) ? failure() : compareRules();
  }

  std::string describeMeshes() {
    std::string text;
    for (ModuleOp onMesh : modules)
      text += (text.empty() ? "" : " and ") + describe(meshOf(onMesh));
    return text;
  }
  int64_t microbatches(int64_t before) { return dimensions.microbatchesInTwin(before); }

private:
  static SmallVector<ModuleOp> onMeshes(ModuleOp module) {
    SmallVector<ModuleOp> result = {module};
    llvm::append_range(result, module.getOps<ModuleOp>());
    return result;
  }

  static dist::MeshOp meshOf(ModuleOp onMesh) { return *onMesh.getOps<dist::MeshOp>().begin(); }

  static std::string describe(dist::MeshOp mesh) {
    std::string text;
    for (const sharding::MeshAxis &axis : dist::toMesh(mesh).axes)
      text += (text.empty() ? "" : " ") + axis.name + "=" + std::to_string(axis.size);
    DenseSet<Attribute> ranks;
    if (auto devices = mesh->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices))
      for (Attribute stage : devices)
        if (!cast<DenseI64ArrayAttr>(stage).empty())
          ranks.insert(stage);
    if (!ranks.empty())
      text += (text.empty() ? "" : " ") + ("pp=" + std::to_string(ranks.size()));
    return text;
  }

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
    shrinkWindow(op);
    auto constant = dyn_cast<arith::ConstantOp>(op);
    if (constant && failed(shrink(constant)))
      return failure();
    for (OpResult result : op->getResults())
      retype(result);
    return success();
  }

  /// Half of the keys: more than a query alone, whose gradient would be 0, and fewer than all.
  static void shrinkWindow(Operation *op) {
    TypeSwitch<Operation *>(op).Case<AttentionOp, AttentionGradOp, AttentionPartGradOp>(
        [](auto attention) {
          const int64_t half = llvm::divideCeil(shapeOf(attention.getKey())[1], 2);
          if (std::optional<uint64_t> window = attention.getWindow())
            attention.setWindow(std::min<uint64_t>(*window, std::max<int64_t>(half, 2)));
        });
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

  /// Numbers that counts are compared with, which other ops may read as they are.
  void shrinkLimits() {
    for (const CountLimit &limit : dimensions.getLimits()) {
      OpBuilder builder(limit.constant->getOwner());
      auto type = cast<RankedTensorType>(limit.constant->get().getType());
      Type element = type.getElementType();
      const int64_t number = dimensions.limitInTwin(limit);
      Attribute value = isa<FloatType>(element)
                            ? Attribute(builder.getFloatAttr(element, double(number)))
                            : builder.getIntegerAttr(element, number);
      limit.constant->set(arith::ConstantOp::create(builder, limit.constant->getOwner()->getLoc(),
                                                    DenseElementsAttr::get(type, value)));
    }
  }

  void shrinkMeshes() {
    int64_t next = 0; // device
    for (ModuleOp onMesh : modules) {
      dist::MeshOp mesh = meshOf(onMesh);
      mesh.setSizes(llvm::map_to_vector(
          dist::toMesh(mesh).axes, [&](const auto &axis) { return dimensions.axisInTwin(axis); }));
      next = numberDevices(mesh, next);
    }
  }

  /// Anew, rank by rank of the pipeline, from `next` on. Returns the one behind the last.
  static int64_t numberDevices(dist::MeshOp mesh, int64_t next) {
    auto devices = mesh->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
    if (!devices)
      return next;
    const int64_t size = dist::toMesh(mesh).devices();
    Builder builder(mesh.getContext());
    DenseMap<Attribute, Attribute> ranks;
    SmallVector<Attribute> stages;
    for (Attribute stage : devices) {
      if (cast<DenseI64ArrayAttr>(stage).empty()) { // of another mesh
        stages.push_back(stage);
        continue;
      }
      Attribute &rank = ranks[stage];
      if (!rank) {
        rank = builder.getDenseI64ArrayAttr(llvm::to_vector(llvm::seq<int64_t>(next, next + size)));
        next += size;
      }
      stages.push_back(rank);
    }
    mesh->setAttr(dist::DistDialect::kDevices, builder.getArrayAttr(stages));
    return next;
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
  SmallVector<ModuleOp> modules; ///< this one, and those inside with the step on other meshes
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

static Twin makeTwin(ModuleOp planned, int64_t microbatches, int64_t headMultiple, Axes axes) {
  Twin twin;
  ScopedDiagnosticHandler handler(planned.getContext(), [&](Diagnostic &diagnostic) {
    if (twin.reason.empty())
      twin.reason = diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> copy = planned.clone();
  Shrinker shrinker(*copy, axes, headMultiple);
  if (failed(shrinker.run()))
    return twin;
  twin.reason.clear();
  twin.mesh = shrinker.describeMeshes();
  twin.microbatches = shrinker.microbatches(microbatches);
  twin.shrinkage = argumentBytes(*copy) / std::max(1.0, argumentBytes(planned));
  twin.module = std::move(copy);
  return twin;
}

/// The axes are the plan's own where they can't be small. A dimension whose size must stay may be
/// split completely, and another one behind it.
Twin makeTwin(ModuleOp planned, int64_t microbatches, int64_t headMultiple) {
  Twin twin = makeTwin(planned, microbatches, headMultiple, Axes::Small);
  return twin.module ? std::move(twin) : makeTwin(planned, microbatches, headMultiple, Axes::Same);
}

} // namespace dtc::twin
