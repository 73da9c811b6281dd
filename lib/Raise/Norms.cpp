// Normalizations over the last dimension from their arithmetic.
#include "Layers.h"

using namespace mlir;

namespace dtc::raise {

/// `value` is its operand repeated along the last dimension.
static Value spreadOverRows(Value value) {
  auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
  if (!broadcast)
    return {};
  const int64_t rank = graph::shapeOf(value).size();
  if (int64_t(broadcast.getDims().size()) != rank - 1 ||
      llvm::is_contained(broadcast.getDims(), rank - 1))
    return {};
  return broadcast.getInput();
}

/// `value` is a vector repeated over all but the last dimension.
static Value spreadOverColumns(Value value) {
  auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
  const int64_t rank = graph::shapeOf(value).size();
  if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>{rank - 1})
    return {};
  return broadcast.getInput();
}

/// x where `value` is the mean of x over its last dimension.
static Value meanOf(Value value) {
  const Product mean = flattenProduct(value);
  if (mean.factors.size() != 1)
    return {};
  auto sum = mean.factors[0].getDefiningOp<graph::ReduceOp>();
  if (!sum || sum.getKind() != graph::ReduceKind::Sum)
    return {};
  auto shape = graph::shapeOf(sum.getInput());
  const int64_t last = shape.size() - 1;
  if (sum.getDims() != ArrayRef<int64_t>{last} ||
      !Rounding(sum).isNear(mean.constant, mean.numbers, 1.0 / double(shape[last])))
    return {};
  return sum.getInput();
}

/// x where `value` is x * x.
static Value squareOf(Value value) {
  auto mul = value.getDefiningOp<arith::MulFOp>();
  return mul && mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
}

/// The argument and eps of sqrt(mean of squares + eps).
static Value rootMeanSquareOf(Value value, double &eps) {
  auto root = value.getDefiningOp<math::SqrtOp>();
  auto rsqrt = value.getDefiningOp<math::RsqrtOp>();
  Value inside = root ? root.getOperand() : rsqrt ? rsqrt.getOperand() : Value();
  auto add = inside ? inside.getDefiningOp<arith::AddFOp>() : arith::AddFOp();
  if (!add)
    return {};
  for (bool left : {true, false})
    if (auto constant = splatValue(left ? add.getLhs() : add.getRhs())) {
      eps = *constant;
      Value squares = meanOf(left ? add.getRhs() : add.getLhs());
      return squares ? squareOf(squares) : Value();
    }
  return {};
}

/// Whether `factor`, per row, is 1 / sqrt(mean(x * x) + eps).
static bool isReciprocalRms(Value factor, Value x, double &eps) {
  if (auto div = factor.getDefiningOp<arith::DivFOp>())
    return splatValue(div.getLhs()) == 1.0 && div.getRhs().getDefiningOp<math::SqrtOp>() &&
           rootMeanSquareOf(div.getRhs(), eps) == x;
  return factor.getDefiningOp<math::RsqrtOp>() && rootMeanSquareOf(factor, eps) == x;
}

/// x when `value` is x - mean(x).
static Value centeredFrom(Value value) {
  auto sub = value.getDefiningOp<arith::SubFOp>();
  Value mean = sub ? spreadOverRows(sub.getRhs()) : Value();
  return mean && meanOf(mean) == sub.getLhs() ? sub.getLhs() : Value();
}

static void replaceByNorm(Operation *op, Value x, double eps, PatternRewriter &rewriter) {
  Emitter emit(op->getLoc(), rewriter);
  auto type = tensorType(x);
  auto stats = RankedTensorType::get(type.getShape().drop_back(),
                                     type.getElementType().isF64() ? emit.getF64Type()
                                                                   : emit.getF32Type());
  FloatAttr epsilon = emit.getF64FloatAttr(eps);
  if (Value raw = centeredFrom(x)) {
    auto norm = graph::LayerNormOp::create(emit, type, stats, stats, raw, Value(), Value(),
                                           epsilon);
    rewriter.replaceOp(op, norm.getResult());
    return;
  }
  auto norm = graph::RmsNormOp::create(emit, type, stats, x, Value(), epsilon);
  rewriter.replaceOp(op, norm.getResult());
}

namespace {

/// x * (1 / sqrt(mean(x*x) + eps)): RMS norm, or layer norm of what x centres.
struct RaiseNormFromProduct : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value x = left ? op.getLhs() : op.getRhs();
      Value factor = spreadOverRows(left ? op.getRhs() : op.getLhs());
      double eps;
      if (!factor || !isReciprocalRms(factor, x, eps))
        continue;
      replaceByNorm(op, x, eps, rewriter);
      return success();
    }
    return failure();
  }
};

/// x / sqrt(mean(x*x) + eps)
struct RaiseNormFromQuotient : OpRewritePattern<arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter &rewriter) const override {
    Value divisor = op.getRhs().getDefiningOp() ? spreadOverRows(op.getRhs()) : Value();
    double eps;
    if (!divisor || !divisor.getDefiningOp<math::SqrtOp>() ||
        rootMeanSquareOf(divisor, eps) != op.getLhs())
      return failure();
    replaceByNorm(op, op.getLhs(), eps, rewriter);
    return success();
  }
};

/// norm(x) * scale, the norm having neither scale nor bias yet.
template <typename NormOp>
struct FoldScale : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value normalized = left ? op.getLhs() : op.getRhs();
      auto norm = normalized.getDefiningOp<NormOp>();
      Value scale = spreadOverColumns(left ? op.getRhs() : op.getLhs());
      if (!norm || !scale || normalized != norm.getResult() || !normalized.hasOneUse() ||
          norm.getScale() || hasBias(norm) || usesStatistics(norm))
        continue;
      rewriter.setInsertionPoint(op);
      auto scaled = cast<NormOp>(rewriter.clone(*norm));
      rewriter.modifyOpInPlace(scaled, [&] { scaled.getScaleMutable().assign(scale); });
      rewriter.replaceOp(op, scaled->getResult(0));
      return success();
    }
    return failure();
  }
  static bool usesStatistics(Operation *norm) {
    return !llvm::all_of(llvm::drop_begin(norm->getResults()),
                         [](OpResult result) { return result.use_empty(); });
  }
  static bool hasBias(graph::LayerNormOp norm) { return bool(norm.getBias()); }
  static bool hasBias(graph::RmsNormOp) { return false; }
};

/// layer_norm(x) + bias
struct FoldBias : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value normalized = left ? op.getLhs() : op.getRhs();
      auto norm = normalized.getDefiningOp<graph::LayerNormOp>();
      Value bias = spreadOverColumns(left ? op.getRhs() : op.getLhs());
      if (!norm || !bias || normalized != norm.getResult() || !normalized.hasOneUse() ||
          norm.getBias() || !norm.getMean().use_empty() || !norm.getRstd().use_empty())
        continue;
      rewriter.setInsertionPoint(op);
      auto shifted = cast<graph::LayerNormOp>(rewriter.clone(*norm));
      rewriter.modifyOpInPlace(shifted, [&] { shifted.getBiasMutable().assign(bias); });
      rewriter.replaceOp(op, shifted.getResult());
      return success();
    }
    return failure();
  }
};
} // namespace

void addNormPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseNormFromProduct, RaiseNormFromQuotient, FoldScale<graph::LayerNormOp>,
               FoldScale<graph::RmsNormOp>, FoldBias>(patterns.getContext());
}

} // namespace dtc::raise
