// GELU in its two forms, SiLU and hard swish from their arithmetic.
#include "Layers.h"

#include <cmath>

using namespace mlir;

namespace dtc::raise {

/// No pattern looks at products of more: what they are made of stays one factor. Without an end,
/// squares of squares would have 2^n factors.
static constexpr unsigned kMostFactors = 16;

static void collectFactors(Value value, Product &product, unsigned depth) {
  if (auto splat = splatValue(value)) {
    product.constant *= *splat;
    product.numbers.push_back(*splat);
    return;
  }
  auto mul = value.getDefiningOp<arith::MulFOp>();
  auto div = value.getDefiningOp<arith::DivFOp>();
  const bool isShort = depth < kMostFactors && product.factors.size() < kMostFactors;
  if (depth == 0 || (isShort && (value.hasOneUse() || (mul && mul.getLhs() == mul.getRhs())))) {
    if (mul) {
      collectFactors(mul.getLhs(), product, depth + 1);
      collectFactors(mul.getRhs(), product, depth + 1);
      return;
    }
    auto splat = div ? splatValue(div.getRhs()) : std::nullopt;
    if (splat) {
      product.constant /= *splat;
      product.numbers.push_back(*splat);
      collectFactors(div.getLhs(), product, depth + 1);
      return;
    }
  }
  product.factors.push_back(value);
}

Product flattenProduct(Value value) {
  Product product;
  collectFactors(value, product, /*depth=*/0);
  return product;
}

static bool hasConstant(const Product &product, double wanted, const Rounding &rounding) {
  return rounding.isNear(product.constant, product.numbers, wanted);
}

/// The other operand of an addition of the constant `wanted`.
static Value plusConstant(Value value, double wanted) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (!add)
    return {};
  if (splatValue(add.getLhs()) == wanted)
    return add.getRhs();
  return splatValue(add.getRhs()) == wanted ? add.getLhs() : Value();
}

static bool isPower(const Product &product, Value x, size_t exponent) {
  return product.factors.size() == exponent &&
         llvm::all_of(product.factors, [&](Value factor) { return factor == x; });
}

/// sqrt(2/pi) * (x + 0.044715 x^3), or the same with x factored out.
static bool isTanhArgument(Value value, Value x, const Rounding &rounding) {
  const Product outer = flattenProduct(value);
  if (!hasConstant(outer, std::sqrt(2 / M_PI), rounding) || outer.factors.empty())
    return false;
  Value inner = outer.factors.back() == x ? outer.factors.front() : outer.factors.back();
  if (outer.factors.size() == 2) { // x * (1 + 0.044715 x^2)
    Value square = plusConstant(inner, 1);
    if (!square || (outer.factors.front() != x && outer.factors.back() != x))
      return false;
    const Product product = flattenProduct(square);
    return hasConstant(product, 0.044715, rounding) && isPower(product, x, 2);
  }
  auto add = inner.getDefiningOp<arith::AddFOp>();
  if (outer.factors.size() != 1 || !add)
    return false;
  for (bool left : {true, false})
    if ((left ? add.getLhs() : add.getRhs()) == x) {
      const Product cube = flattenProduct(left ? add.getRhs() : add.getLhs());
      if (hasConstant(cube, 0.044715, rounding) && isPower(cube, x, 3))
        return true;
    }
  return false;
}

namespace {

struct RaiseGelu : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    const Product product = flattenProduct(op.getResult());
    if (product.constant != 0.5 || product.factors.size() != 2)
      return failure();
    const Rounding rounding(op);
    for (int gate : {0, 1}) {
      Value x = product.factors[1 - gate], inner = plusConstant(product.factors[gate], 1);
      auto tanh = inner ? inner.getDefiningOp<math::TanhOp>() : math::TanhOp();
      auto erf = inner ? inner.getDefiningOp<math::ErfOp>() : math::ErfOp();
      if (tanh && isTanhArgument(tanh.getOperand(), x, rounding))
        return replace(op, graph::Activation::GeluTanh, x, rewriter);
      if (!erf)
        continue;
      const Product argument = flattenProduct(erf.getOperand());
      if (hasConstant(argument, M_SQRT1_2, rounding) && isPower(argument, x, 1))
        return replace(op, graph::Activation::Gelu, x, rewriter);
    }
    return failure();
  }

  static LogicalResult replace(arith::MulFOp op, graph::Activation kind, Value x,
                               PatternRewriter &rewriter) {
    rewriter.replaceOpWithNewOp<graph::ActivationOp>(op, x.getType(), kind, x);
    return success();
  }
};

/// x * sigmoid(x) and x * hard_sigmoid(x).
struct RaiseGated : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value x = left ? op.getLhs() : op.getRhs();
      auto gate = (left ? op.getRhs() : op.getLhs()).getDefiningOp<graph::ActivationOp>();
      if (!gate || gate.getInput() != x)
        continue;
      using graph::Activation;
      if (gate.getKind() != Activation::Sigmoid && gate.getKind() != Activation::HardSigmoid)
        continue;
      rewriter.replaceOpWithNewOp<graph::ActivationOp>(
          op, x.getType(),
          gate.getKind() == Activation::Sigmoid ? Activation::Silu : Activation::HardSwish, x);
      return success();
    }
    return failure();
  }
};
} // namespace

void addActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseGelu, RaiseGated>(patterns.getContext());
}

} // namespace dtc::raise
