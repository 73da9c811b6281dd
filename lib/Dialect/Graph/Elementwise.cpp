// Sharding rules and costs of the arith and math ops that graphs use.
#include "Rules.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

/// Where an op is linear; for most it is not in any operand. Rounding is not: what pends in f32 is
/// summed in f32, then rounded once.
static std::vector<std::vector<int>> linearSets(Operation *op) {
  if (isa<arith::AddFOp, arith::SubFOp, arith::AddIOp, arith::SubIOp>(op))
    return {{0, 1}};
  if (isa<arith::MulFOp, arith::MulIOp>(op))
    return {{0}, {1}};
  if (isa<arith::SelectOp>(op))
    return {{1, 2}};
  if (isa<arith::DivFOp, arith::NegFOp, arith::ExtFOp>(op))
    return {{0}};
  return {};
}

namespace {
template <typename Op>
struct ElementwiseRule : ShardingRuleOpInterface::ExternalModel<ElementwiseRule<Op>, Op> {
  ShardingRule buildShardingRule(Operation *op, UnitFactors units) const {
    OpRule rule(op, units);
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    SmallVector<FactorId> dims = rule.factors(shape);
    // A select's condition may be one scalar.
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (isa<RankedTensorType>(operand.getType()))
        rule.operand(i, dims);
    rule.result(0, dims);
    for (std::vector<int> &set : linearSets(op))
      rule.linear(std::move(set));
    return rule.build();
  }

  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder, ValueRange operands,
                                           TypeRange resultTypes, const LocalContext &) const {
    return cloneLocal(op, builder, operands, resultTypes);
  }
};

template <typename Op>
struct ElementwiseCost : CostOpInterface::ExternalModel<ElementwiseCost<Op>, Op> {
  OpCost getCost(Operation *op) const { return {.kind = OpKind::Elementwise, .dear = isDear(op)}; }
};

struct ConstantCost : CostOpInterface::ExternalModel<ConstantCost, arith::ConstantOp> {
  OpCost getCost(Operation *) const { return {OpKind::Reindex}; }
};

/// A constant that holds one value everywhere has it on every shard; others
/// stay whole, and are sliced where a shard is wanted.
struct ConstantRule : ShardingRuleOpInterface::ExternalModel<ConstantRule, arith::ConstantOp> {
  ShardingRule buildShardingRule(Operation *op, UnitFactors units) const {
    OpRule rule(op, units);
    bool splat = isa<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    rule.result(0, rule.factors(shapeOf(op->getResult(0)),
                                splat ? FactorKind::Parallel : FactorKind::Whole));
    return rule.build();
  }

  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder, ValueRange operands,
                                           TypeRange resultTypes, const LocalContext &) const {
    auto splat = dyn_cast<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    if (!splat || resultTypes[0] == op->getResult(0).getType())
      return cloneLocal(op, builder, operands, resultTypes);
    auto local = splat.resizeSplat(cast<RankedTensorType>(resultTypes[0]));
    Value value = arith::ConstantOp::create(builder, op->getLoc(), local);
    return SmallVector<Value>{value};
  }
};
} // namespace

template <typename... Ops>
static void attachModels(MLIRContext *context) {
  (Ops::template attachInterface<ElementwiseRule<Ops>, ElementwiseCost<Ops>>(*context), ...);
}

static void attachArith(MLIRContext *context) {
  using namespace arith;
  arith::ConstantOp::attachInterface<ConstantRule, ConstantCost>(*context);
  attachModels<AddFOp, SubFOp, MulFOp, DivFOp, RemFOp, NegFOp, MaximumFOp, MinimumFOp, MaxNumFOp,
              MinNumFOp, AddIOp, SubIOp, MulIOp, DivSIOp, DivUIOp, RemSIOp, RemUIOp, FloorDivSIOp,
              CeilDivSIOp, CeilDivUIOp, AndIOp, OrIOp, XOrIOp, ShLIOp, ShRSIOp, ShRUIOp, MaxSIOp,
              MaxUIOp, MinSIOp, MinUIOp, CmpIOp, CmpFOp, SelectOp, ExtFOp, TruncFOp, ExtSIOp,
              ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp, BitcastOp>(context);
}

static void attachMath(MLIRContext *context) {
  using namespace math;
  attachModels<AbsFOp, AbsIOp, AcosOp, AcoshOp, AsinOp, AsinhOp, AtanOp, Atan2Op, AtanhOp, CbrtOp,
              CeilOp, CopySignOp, CosOp, CoshOp, ErfOp, ErfcOp, ExpOp, Exp2Op, ExpM1Op, FloorOp,
              FmaOp, FPowIOp, IPowIOp, IsFiniteOp, IsInfOp, IsNaNOp, IsNormalOp, LogOp, Log10Op,
              Log1pOp, Log2Op, PowFOp, RoundOp, RoundEvenOp, RsqrtOp, SinOp, SinhOp, SqrtOp,
              TanOp, TanhOp, TruncOp>(context);
}

namespace dtc::graph {

void registerElementwiseModels(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, arith::ArithDialect *) { attachArith(context); });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) { attachMath(context); });
  registerElementwiseGradients(registry);
}

bool isElementwise(Operation *op) {
  return isa_and_present<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
         op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

bool isDear(Operation *op) {
  return isa<math::ExpOp, math::Exp2Op, math::ExpM1Op, math::LogOp, math::Log1pOp, math::TanhOp,
             math::ErfOp, math::PowFOp, math::SinOp, math::CosOp, math::SqrtOp, math::RsqrtOp,
             arith::DivFOp>(op);
}

} // namespace dtc::graph
