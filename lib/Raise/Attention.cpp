// Scores, mask, softmax and weighted sum become dtc.attention.
//
// After unflattening all layouts are index lists of two contractions, so one pattern covers them.
// An index of the scores that both operands have is a batch or head. The one that softmax runs over
// is the key, the other is the query.
#include "Layers.h"
#include "MaskBand.h"

#include "dtc/Raise/ConstantScale.h"

#include "mlir/Analysis/SliceAnalysis.h"

using namespace mlir;

namespace dtc::raise {

/// select(isnan(x), 0, x) guards rows that see no key; dtc's softmax gives them zeros.
static Value stripNanGuard(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  if (!select)
    return value;
  auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
  const Value x = select.getFalseValue();
  if (compare && compare.getPredicate() == arith::CmpFPredicate::UNE &&
      compare.getLhs() == x && compare.getRhs() == x && splatValue(select.getTrueValue()) == 0.0)
    return x;
  return value;
}

double scaleOf(Value value) {
  if (value.getDefiningOp<graph::ReshapeOp>() || value.getDefiningOp<graph::TransposeOp>() ||
      value.getDefiningOp<graph::BroadcastOp>())
    return scaleOf(value.getDefiningOp()->getOperand(0));
  if (auto mul = value.getDefiningOp<arith::MulFOp>())
    for (bool left : {true, false})
      if (auto splat = splatValue(left ? mul.getLhs() : mul.getRhs()))
        return *splat * scaleOf(left ? mul.getRhs() : mul.getLhs());
  if (auto div = value.getDefiningOp<arith::DivFOp>())
    if (auto splat = splatValue(div.getRhs()))
      return scaleOf(div.getLhs()) / *splat;
  return 1;
}

/// The value without the constant factor that scaleOf finds.
static Value withoutScale(Emitter &emit, Value value) {
  if (scaleOf(value) == 1)
    return value;
  Operation *op = value.getDefiningOp();
  if (isa<arith::MulFOp>(op))
    return withoutScale(emit, splatValue(op->getOperand(0)) ? op->getOperand(1)
                                                            : op->getOperand(0));
  if (isa<arith::DivFOp>(op))
    return withoutScale(emit, op->getOperand(0));
  Value unscaled = withoutScale(emit, op->getOperand(0));
  Operation *moved = emit.clone(*op);
  moved->setOperand(0, unscaled);
  return moved->getResult(0);
}

namespace {

/// What is found above a softmax: scaled scores plus terms.
struct Scores {
  graph::ContractOp contract;
  double scale = 1;
  SmallVector<Value> terms;          ///< added to the scores
  SmallVector<arith::SelectOp> hidden; ///< select(condition, -inf, scores) or the other way

  bool match(Value value) {
    if (auto mul = value.getDefiningOp<arith::MulFOp>()) {
      for (bool left : {true, false})
        if (auto splat = splatValue(left ? mul.getLhs() : mul.getRhs())) {
          // Terms added before are scaled as well, which attention cannot say.
          scale *= *splat;
          return match(left ? mul.getRhs() : mul.getLhs()) && terms.empty() && hidden.empty();
        }
      return false;
    }
    if (auto div = value.getDefiningOp<arith::DivFOp>()) {
      auto splat = splatValue(div.getRhs());
      if (!splat)
        return false;
      scale /= *splat;
      return match(div.getLhs()) && terms.empty() && hidden.empty();
    }
    if (auto add = value.getDefiningOp<arith::AddFOp>()) {
      for (bool left : {true, false}) {
        Scores inner = *this;
        if (!inner.match(left ? add.getLhs() : add.getRhs()))
          continue;
        inner.terms.push_back(left ? add.getRhs() : add.getLhs());
        *this = inner;
        return true;
      }
      return false;
    }
    if (auto select = value.getDefiningOp<arith::SelectOp>()) {
      auto then = splatValue(select.getTrueValue()), other = splatValue(select.getFalseValue());
      if (!(then && hidesKey(*then)) && !(other && hidesKey(*other)))
        return false;
      if (!match(then ? select.getFalseValue() : select.getTrueValue()))
        return false;
      hidden.push_back(select);
      return true;
    }
    contract = value.getDefiningOp<graph::ContractOp>();
    return contract && value.hasOneUse();
  }
};

/// The roles of indices. Positions are dimensions of the scores.
struct IndexRoles {
  Shape batch;    ///< positions that both operands have: batch, then heads
  int64_t query = -1, key = -1;
  Shape q, k, v;  ///< permutations to [batch..., position, feature]
  Shape result;   ///< order of [batch..., query, feature] in the result of the second contraction
  bool keyIsLhs = false, probsAreLhs = false;
};

struct RaiseAttention : OpRewritePattern<graph::ContractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::ContractOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value probs = stripNanGuard(left ? op.getLhs() : op.getRhs());
      auto softmax = probs.getDefiningOp<graph::SoftmaxOp>();
      if (!softmax)
        continue;
      Scores scores;
      if (!scores.match(softmax.getInput()))
        return failure();
      auto roles = rolesOf(op, left, scores.contract, softmax.getDim());
      if (!roles || llvm::any_of(scores.terms, dependsOnParameter))
        return failure();
      rewrite(op, scores, *roles, rewriter);
      return success();
    }
    return failure();
  }

  /// Position of each of `wanted` in `indices`; nothing where one is missing or
  /// another index is left over.
  static std::optional<Shape> permutation(ArrayRef<int64_t> indices, const Shape &wanted) {
    if (indices.size() != wanted.size())
      return std::nullopt;
    Shape perm;
    for (int64_t index : wanted) {
      const auto *found = llvm::find(indices, index);
      if (found == indices.end())
        return std::nullopt;
      perm.push_back(found - indices.begin());
    }
    return perm;
  }

  static std::optional<IndexRoles> rolesOf(graph::ContractOp out, bool probsAreLhs,
                                           graph::ContractOp scores, int64_t keyPosition) {
    IndexRoles roles;
    roles.probsAreLhs = probsAreLhs;
    roles.key = keyPosition;
    auto dims = scores.getResultIndices();
    roles.keyIsLhs = llvm::is_contained(scores.getLhsIndices(), dims[keyPosition]);
    auto qIndices = roles.keyIsLhs ? scores.getRhsIndices() : scores.getLhsIndices();
    auto kIndices = roles.keyIsLhs ? scores.getLhsIndices() : scores.getRhsIndices();
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool inQ = llvm::is_contained(qIndices, dims[i]);
      const bool inK = llvm::is_contained(kIndices, dims[i]);
      if (inQ && inK)
        roles.batch.push_back(i);
      else if (inQ && roles.query < 0)
        roles.query = i;
      else if (!inK || int64_t(i) != keyPosition)
        return std::nullopt;
    }
    if (roles.query < 0 || roles.batch.empty() || roles.batch.size() > 2)
      return std::nullopt;
    auto pIndices = probsAreLhs ? out.getLhsIndices() : out.getRhsIndices();
    auto vIndices = probsAreLhs ? out.getRhsIndices() : out.getLhsIndices();
    Shape q, k, v, r; // batch, position, feature
    for (int64_t position : roles.batch) {
      q.push_back(dims[position]);
      k.push_back(dims[position]);
      v.push_back(pIndices[position]);
      r.push_back(pIndices[position]);
    }
    q.push_back(dims[roles.query]);
    k.push_back(dims[keyPosition]);
    v.push_back(pIndices[keyPosition]);
    r.push_back(pIndices[roles.query]);
    auto appendFeature = [](Shape &known, ArrayRef<int64_t> indices) {
      for (int64_t index : indices)
        if (!llvm::is_contained(known, index))
          known.push_back(index);
    };
    appendFeature(q, qIndices);
    appendFeature(v, vIndices);
    k.push_back(q.back());
    r.push_back(v.back());
    const size_t rank = roles.batch.size() + 2;
    auto qPerm = permutation(qIndices, q), kPerm = permutation(kIndices, k),
         vPerm = permutation(vIndices, v), rPerm = permutation(out.getResultIndices(), r);
    if (q.size() != rank || v.size() != rank || !qPerm || !kPerm || !vPerm || !rPerm ||
        pIndices.size() != rank)
      return std::nullopt;
    roles.q = *qPerm;
    roles.k = *kPerm;
    roles.v = *vPerm;
    roles.result = *rPerm;
    return roles;
  }

  /// [batch..., position, feature] as [b, position, heads, feature].
  static Value byPosition(Emitter &emit, Value value, const Shape &perm) {
    if (perm.size() == 4)
      return transpose(emit, value, {perm[0], perm[2], perm[1], perm[3]});
    value = transpose(emit, value, perm);
    auto shape = graph::shapeOf(value);
    return reshape(emit, value, {shape[0], shape[1], 1, shape[2]});
  }

  static Value biasOf(Emitter &emit, const Scores &scores, const IndexRoles &roles) {
    Value bias;
    auto add = [&](Value term) {
      bias = bias ? arith::AddFOp::create(emit, bias, term).getResult() : term;
    };
    for (Value term : scores.terms)
      add(term);
    for (arith::SelectOp select : scores.hidden) {
      // Hiding instead of replacing: a score that far down cannot tell the difference.
      Value zero = splatLike(emit, select, 0);
      const bool then = splatValue(select.getTrueValue()).has_value();
      add(arith::SelectOp::create(emit, select.getCondition(),
                                  then ? select.getTrueValue() : zero,
                                  then ? zero : select.getFalseValue()));
    }
    if (!bias)
      return {};
    Shape perm = roles.batch;
    perm.append({roles.query, roles.key});
    bias = transpose(emit, bias, perm);
    auto shape = graph::shapeOf(bias);
    return shape.size() == 4 ? bias : reshape(emit, bias, {shape[0], 1, shape[1], shape[2]});
  }

  static void rewrite(graph::ContractOp op, const Scores &scores, const IndexRoles &roles,
                      PatternRewriter &rewriter) {
    Emitter emit(op.getLoc(), rewriter);
    graph::ContractOp contract = scores.contract;
    Value query = roles.keyIsLhs ? contract.getRhs() : contract.getLhs();
    Value key = roles.keyIsLhs ? contract.getLhs() : contract.getRhs();
    Value value = roles.probsAreLhs ? op.getRhs() : op.getLhs();
    const double scale = scores.scale * scaleOf(query) * scaleOf(key);
    query = byPosition(emit, withoutScale(emit, query), roles.q);
    key = byPosition(emit, withoutScale(emit, key), roles.k);
    value = byPosition(emit, value, roles.v);
    Value bias = biasOf(emit, scores, roles);
    auto q = graph::shapeOf(query), v = graph::shapeOf(value);
    Type statistic = elementOf(query).isF64() ? emit.getF64Type() : emit.getF32Type();
    auto attention = graph::AttentionOp::create(
        emit, tensorType(query).clone({q[0], q[1], q[2], v[3]}),
        RankedTensorType::get({q[0], q[2], q[1]}, statistic), query, key, value, bias,
        emit.getF64FloatAttr(scale), UnitAttr(), IntegerAttr());
    Value result = attention.getResult();
    const bool heads = roles.result.size() == 4;
    if (!heads)
      result = reshape(emit, result, {q[0], q[1], v[3]});
    Shape order = heads ? Shape{roles.result[0], roles.result[2], roles.result[1], roles.result[3]}
                        : roles.result;
    Shape perm(order.size()); // result dimension order[i] is dimension i of `result`
    for (size_t i = 0; i < order.size(); ++i)
      perm[order[i]] = i;
    rewriter.replaceOp(op, transpose(emit, result, perm));
  }
};

/// Whether a bias is made of the file's numbers alone, none of them low enough to hide a key,
/// by ops that make none.
static bool hidesNothing(Value bias) {
  SetVector<Operation *> made;
  BackwardSliceOptions options;
  options.inclusive = true;
  (void)getBackwardSlice(bias, &made, options);
  return !made.empty() && llvm::all_of(made, [](Operation *op) {
    if (isa<arith::DivFOp, math::LogOp>(op) ||
        llvm::any_of(op->getOperands(), [](Value value) { return isa<BlockArgument>(value); }))
      return false;
    Attribute attr;
    if (!matchPattern(op, m_Constant(&attr)))
      return !op->hasTrait<OpTrait::ConstantLike>();
    auto elements = dyn_cast<DenseElementsAttr>(attr);
    if (!elements || !isa<FloatType>(elements.getElementType()))
      return elements && elements.getElementType().isIntOrIndex();
    auto isSmall = [](const APFloat &element) {
      return element.isFinite() && !hidesKey(element.convertToDouble());
    };
    return elements.isSplat() ? isSmall(elements.getSplatValue<APFloat>())
                              : llvm::all_of(elements.getValues<APFloat>(), isSmall);
  });
}

/// A bias that is the causal mask or that of a window, or a sum with such a term, becomes
/// attributes. Of ALiBi's sum the slopes stay. Where the rest may hide keys, as padding does, a row
/// could be left without any. The file's mask says something else of it than the attributes.
struct FoldCausalBias : OpRewritePattern<graph::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getBias())
      return failure();
    Value rest;
    std::optional<int64_t> window = causalWindow(op.getBias(), 2, 3, op.getCausal());
    if (!window)
      std::tie(window, rest) = windowOfSum(op.getBias(), op.getCausal());
    if (!window)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      if (rest)
        op.getBiasMutable().assign(rest);
      else
        op.getBiasMutable().clear();
      op.setCausal(true);
      if (*window > 0)
        op.setWindow(std::min<uint64_t>(op.getWindow().value_or(*window), *window));
    });
    return success();
  }

  /// The window of the mask and x, for x + mask.
  static std::pair<std::optional<int64_t>, Value> windowOfSum(Value bias, bool isCausal) {
    if (auto sum = bias.getDefiningOp<arith::AddFOp>())
      for (bool left : {false, true}) {
        auto window = causalWindow(left ? sum.getLhs() : sum.getRhs(), 2, 3, isCausal);
        Value rest = left ? sum.getRhs() : sum.getLhs();
        if (window && hidesNothing(rest))
          return {window, rest};
      }
    return {std::nullopt, Value()};
  }
};

/// A bias of zeros says nothing.
struct DropZeroBias : OpRewritePattern<graph::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getBias() || splatValue(op.getBias()) != 0.0)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
    return success();
  }
};

/// Keys and values whose heads are repeated for the queries of a group.
struct FoldRepeatedHeads : OpRewritePattern<graph::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value key = unrepeated(op.getKey()), value = unrepeated(op.getValue());
    if (!key || !value || graph::shapeOf(key)[2] != graph::shapeOf(value)[2])
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(key);
      op.getValueMutable().assign(value);
    });
    return success();
  }

  /// x for reshape(broadcast(x[b,t,g,e]) to [b,t,g,r,e]) to [b,t,(g r),e].
  static Value unrepeated(Value heads) {
    auto merge = heads.getDefiningOp<graph::ReshapeOp>();
    auto repeat = merge ? merge.getInput().getDefiningOp<graph::BroadcastOp>()
                        : graph::BroadcastOp();
    if (!repeat || repeat.getDims() != ArrayRef<int64_t>{0, 1, 2, 4})
      return {};
    auto wide = graph::shapeOf(repeat.getResult()), merged = graph::shapeOf(heads);
    if (wide.size() != 5 || merged != ArrayRef<int64_t>{wide[0], wide[1], wide[2] * wide[3],
                                                        wide[4]})
      return {};
    return repeat.getInput();
  }
};
} // namespace

void addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention, FoldCausalBias, DropZeroBias, FoldRepeatedHeads>(
      patterns.getContext());
}

} // namespace dtc::raise
