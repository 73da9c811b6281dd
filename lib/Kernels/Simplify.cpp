#include "Simplify.h"
#include "dtc/Kernels/ElementTypes.h"
#include "dtc/Kernels/IndexMath.h"
#include "dtc/Kernels/KernelBody.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/MergeDuplicates.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Sharding/IndexBuckets.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dtc::kernels {

using graph::shapeOf;

namespace {

/// Whole reductions of more elements than this are done by rows first.
constexpr int64_t kLargeReduction = 32768;
/// Elements of a row when a flat tensor is reduced by rows.
constexpr int64_t kReductionRow = 8192;

/// Rows of a slice at least, and slices at most, which one pass more adds up.
constexpr int64_t kLeastSlice = 256, kMostSlices = 64;

/// contract(transpose(x), y) and transpose(contract(x, y)) to a contraction
/// with other index lists.
struct TransposedOperand : OpRewritePattern<graph::ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ContractOp op, PatternRewriter &rewriter) const override {
    bool changed = false;
    auto look = [&](Value operand, SmallVector<int64_t> &indices) {
      auto transpose = operand.getDefiningOp<graph::TransposeOp>();
      if (!transpose)
        return operand;
      SmallVector<int64_t> before(indices.size());
      for (auto [i, from] : llvm::enumerate(transpose.getPerm()))
        before[from] = indices[i];
      indices = before;
      changed = true;
      return Value(transpose.getInput());
    };
    SmallVector<int64_t> lhsIndices(op.getLhsIndices()), rhsIndices(op.getRhsIndices());
    Value lhs = look(op.getLhs(), lhsIndices), rhs = look(op.getRhs(), rhsIndices);
    if (!changed)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getLhsMutable().assign(lhs);
      op.getRhsMutable().assign(rhs);
      op.setLhsIndices(lhsIndices);
      op.setRhsIndices(rhsIndices);
    });
    return success();
  }
};

struct TransposedResult : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto contract = op.getInput().getDefiningOp<graph::ContractOp>();
    if (!contract || !contract->hasOneUse())
      return failure();
    SmallVector<int64_t> indices;
    for (int64_t from : op.getPerm())
      indices.push_back(contract.getResultIndices()[from]);
    rewriter.replaceOpWithNewOp<graph::ContractOp>(
        op, op.getType(), contract.getLhs(), contract.getRhs(), contract.getLhsIndices(),
        contract.getRhsIndices(), indices);
    return success();
  }
};

/// A pad by zeros along one dimension: the place of its operand.
struct Part {
  int64_t dim, low, high;
  Value value;
};

std::optional<Part> partOf(Value value) {
  auto pad = value.getDefiningOp<graph::PadOp>();
  if (!pad || !pad.getValue().isZero())
    return std::nullopt;
  ArrayRef<int64_t> in = shapeOf(pad.getInput()), out = shapeOf(pad.getResult());
  std::optional<Part> part;
  for (int64_t dim = 0; dim < static_cast<int64_t>(in.size()); ++dim) {
    if (in[dim] == out[dim])
      continue;
    if (part || (pad.getInterior()[dim] != 0 && in[dim] != 1))
      return std::nullopt;
    part = {dim, pad.getLow()[dim], pad.getLow()[dim] + in[dim], pad.getInput()};
  }
  return part;
}

/// sum(pad(x), pad(y), ...) of parts that don't overlap: their concatenation,
/// as the gradient of slices is.
struct SumOfPads : OpRewritePattern<graph::SumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SumOp op, PatternRewriter &rewriter) const override {
    SmallVector<Part> parts;
    for (Value input : op.getInputs()) {
      std::optional<Part> part = partOf(input);
      if (!part || (!parts.empty() && parts.front().dim != part->dim))
        return failure();
      parts.push_back(*part);
    }
    llvm::stable_sort(parts, [](const Part &a, const Part &b) { return a.low < b.low; });
    int64_t dim = parts.front().dim, end = 0;
    SmallVector<Value> pieces;
    graph::TensorBuilder b(rewriter, op.getLoc());
    auto fill = [&](int64_t size) {
      SmallVector<int64_t> shape(shapeOf(op.getResult()));
      shape[dim] = size;
      pieces.push_back(b.constant(
          RankedTensorType::get(shape, getElementTypeOrSelf(op.getType())), 0.0));
    };
    for (const Part &part : parts) {
      if (part.low < end)
        return failure();
      if (part.low > end)
        fill(part.low - end);
      pieces.push_back(part.value);
      end = part.high;
    }
    if (end < shapeOf(op.getResult())[dim])
      fill(shapeOf(op.getResult())[dim] - end);
    rewriter.replaceOpWithNewOp<graph::ConcatOp>(op, op.getType(), pieces, dim);
    return success();
  }
};

/// The number of leading rows for a whole reduction of n elements: 0 if there is no good one.
int64_t rowsFor(int64_t elements) {
  for (int64_t row = kReductionRow; row >= 256; --row)
    if (elements % row == 0)
      return elements / row;
  return 0;
}

struct WholeReduction : OpRewritePattern<graph::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReduceOp op, PatternRewriter &rewriter) const override {
    int64_t elements = IndexMath::numElements(shapeOf(op.getInput()));
    if (IndexMath::numElements(shapeOf(op.getResult())) != 1 || elements <= kLargeReduction)
      return failure();
    int64_t rows = rowsFor(elements);
    if (rows <= 1)
      return failure();
    graph::TensorBuilder b(rewriter, op.getLoc());
    Value input = op.getInput();
    // Half precision partial sums are kept in f32.
    Type element = getElementTypeOrSelf(op.getType());
    if (op.getKind() == graph::ReduceKind::Sum || op.getKind() == graph::ReduceKind::Prod)
      if (isa<FloatType>(element))
        input = b.widen(input);
    Value partial = b.reduce(op.getKind(), b.reshape(input, {rows, elements / rows}), {1});
    Value whole = b.reduce(op.getKind(), partial, {0});
    if (getElementTypeOrSelf(whole) != element)
      whole = b.convert(whole, element);
    rewriter.replaceOp(op, b.reshape(whole, shapeOf(op.getResult())));
    return success();
  }
};

/// The least number of slices of so many rows that makes as many columns as are asked for. Else it
/// is the most that there are, and 0 where nothing is won.
int64_t slicesOf(int64_t rows, int64_t columns, int64_t wanted) {
  int64_t most = 0;
  for (int64_t slices = 2; slices <= kMostSlices && rows / slices >= kLeastSlice; ++slices)
    if (rows % slices == 0) {
      most = slices;
      if (slices * columns >= wanted)
        break;
    }
  return most;
}

/// sum over 8192 rows of 768 columns: of 16 slices of rows, then of the 16 sums. The dimensions
/// that are reduced lie side by side.
struct FewColumns : OpRewritePattern<graph::ReduceOp> {
  FewColumns(MLIRContext *context, int64_t wanted) : OpRewritePattern(context), wanted(wanted) {}

  LogicalResult matchAndRewrite(graph::ReduceOp op, PatternRewriter &rewriter) const override {
    Type element = getElementTypeOrSelf(op.getType());
    if (reducesInnermost(op) || computeType(element) != element)
      return failure();
    ColumnShape shape = columnShape(op);
    ArrayRef<int64_t> reduced = shape.reducedDims;
    if (reduced.back() - reduced.front() + 1 != int64_t(reduced.size()) ||
        llvm::any_of(shape.outerDims, [&](int64_t dim) { return dim > reduced.front(); }))
      return failure();
    const int64_t columns = shape.outer * shape.columns;
    const int64_t slices = columns < wanted ? slicesOf(shape.reduced, columns, wanted) : 0;
    if (slices == 0)
      return failure();
    graph::TensorBuilder b(rewriter, op.getLoc());
    SmallVector<int64_t> sliced{shape.outer, slices, shape.reduced / slices, shape.columns};
    Value parts = b.reduce(op.getKind(), b.reshape(op.getInput(), sliced), {2});
    Value whole = b.reduce(op.getKind(), parts, {1});
    rewriter.replaceOp(op, b.reshape(whole, shapeOf(op.getResult())));
    return success();
  }

  int64_t wanted;
};

/// Sums of more scalars than this are done in groups.
constexpr size_t kManyTerms = 8;

/// What a scalar is reduced from, by which alike terms are found. It is the tensor's shape, and
/// whether that is a reduction's result (rows of a large tensor) or computed on the way.
using ReducedFrom = std::pair<ArrayRef<int64_t>, bool>;

ReducedFrom reducedFrom(Value scalar) {
  scalar = graph::withoutReshapes(scalar);
  auto reduce = scalar.getDefiningOp<graph::ReduceOp>();
  if (!reduce)
    return {shapeOf(scalar), false};
  Value input = graph::withoutReshapes(reduce.getInput());
  return {shapeOf(reduce.getInput()), input.getDefiningOp<graph::ReduceOp>() != nullptr};
}

/// A sum of many scalars (the squares of all gradients) becomes sums of up to eight, each of terms
/// that are alike. So a few kernels serve any number of parameters.
struct SumOfManyScalars : OpRewritePattern<graph::SumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SumOp op, PatternRewriter &rewriter) const override {
    if (IndexMath::numElements(shapeOf(op.getResult())) != 1 ||
        op.getInputs().size() <= kManyTerms)
      return failure();
    SmallVector<Value> terms(op.getInputs());
    llvm::stable_sort(terms, [](Value a, Value b) {
      auto [left, leftOfRows] = reducedFrom(a);
      auto [right, rightOfRows] = reducedFrom(b);
      if (left == right)
        return leftOfRows < rightOfRows;
      return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
    });
    auto alike = [](Value a, Value b) { return reducedFrom(a) == reducedFrom(b); };
    bool anyAlike = std::adjacent_find(terms.begin(), terms.end(), alike) != terms.end();
    SmallVector<Value> sums;
    for (size_t first = 0, last = 0; first < terms.size(); first = last) {
      while (last < terms.size() && last < first + kManyTerms &&
             (!anyAlike || alike(terms[last], terms[first])))
        ++last;
      ValueRange group = ValueRange(terms).slice(first, last - first);
      sums.push_back(group.size() == 1 ? group.front()
                                       : graph::SumOp::create(rewriter, op.getLoc(),
                                                              op.getType(), group));
    }
    rewriter.modifyOpInPlace(op, [&] { op.getInputsMutable().assign(sums); });
    return success();
  }
};

/// Whether a value is but one term of a sum that waits for later ones.
bool waitsForOtherTerms(Value value) {
  auto sum = value.hasOneUse() ? dyn_cast<graph::SumOp>(*value.user_begin()) : nullptr;
  return sum && llvm::any_of(sum.getInputs(), [&](Value term) {
           Operation *maker = term.getDefiningOp();
           return maker && value.getDefiningOp()->isBeforeInBlock(maker);
         });
}

/// What waits is rounded before it waits.
struct HalfScatter : OpRewritePattern<graph::ScatterAddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ScatterAddOp op, PatternRewriter &rewriter) const override {
    if (!isHalf(op.getType()))
      return failure();
    graph::TensorBuilder b(rewriter, op.getLoc());
    Type wide = RankedTensorType::get(shapeOf(op.getResult()), rewriter.getF32Type());
    Value sum = graph::ScatterAddOp::create(rewriter, op.getLoc(), wide, op.getIndices(),
                                            b.widen(op.getUpdates()), op.getAxis());
    Value rounded = b.convert(sum, getElementTypeOrSelf(op.getType()));
    if (waitsForOtherTerms(op.getResult()))
      rounded = graph::BarrierOp::create(rewriter, op.getLoc(), op.getType(), rounded);
    rewriter.replaceOp(op, rounded);
    return success();
  }
};

/// Where many blocks would read many indices, these are put into a bucket for each before.
struct ManyIndices : OpRewritePattern<graph::ScatterAddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ScatterAddOp op, PatternRewriter &rewriter) const override {
    Value indices = op.getIndices();
    if (op.getBuckets() || op.getAxis() != 0 || isHalf(op.getType()))
      return failure();
    const int64_t rows = shapeOf(op.getResult())[0];
    std::optional<sharding::IndexBuckets> buckets =
        sharding::bucketsOf(rows, elementsOf(indices), storageBytes(getElementTypeOrSelf(indices)));
    if (!buckets)
      return failure();
    auto type = RankedTensorType::get({buckets->parts, buckets->buckets + 1 + buckets->part},
                                      rewriter.getI32Type());
    Value sorted =
        graph::BucketIndicesOp::create(rewriter, op.getLoc(), type, indices, rows, buckets->rows);
    rewriter.modifyOpInPlace(op, [&] {
      op.getBucketsMutable().assign(sorted);
      op.setBucketRows(buckets->rows);
    });
    return success();
  }
};

struct HalfPoolGrad : OpRewritePattern<graph::MaxPoolGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::MaxPoolGradOp op,
                                PatternRewriter &rewriter) const override {
    if (!isHalf(op.getType()))
      return failure();
    graph::TensorBuilder b(rewriter, op.getLoc());
    Type wide = RankedTensorType::get(shapeOf(op.getResult()), rewriter.getF32Type());
    Value grad = graph::MaxPoolGradOp::create(
        rewriter, op.getLoc(), wide, b.widen(op.getInput()), b.widen(op.getGrad()),
        op.getKernel(), op.getStrides(), op.getPadLow(), op.getPadHigh(), op.getDilations());
    rewriter.replaceOp(op, b.convert(grad, getElementTypeOrSelf(op.getType())));
    return success();
  }
};

} // namespace

bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isBF16() || element.isF16();
}

LogicalResult simplify(func::FuncOp func, const target::KernelLimits &limits) {
  MLIRContext *context = func.getContext();
  RewritePatternSet patterns(context);
  for (Dialect *dialect : context->getLoadedDialects())
    dialect->getCanonicalizationPatterns(patterns);
  patterns.add<TransposedOperand, TransposedResult, SumOfPads, WholeReduction,
               SumOfManyScalars, HalfScatter, HalfPoolGrad>(context);
  if (limits.bucketsIndices)
    patterns.add<ManyIndices>(context);
  if (limits.fewColumns > 0)
    patterns.add<FewColumns>(context, limits.fewColumns);
  dist::SliceOp::getCanonicalizationPatterns(patterns, context);
  // A worklist of all ops is emptied once. What a rewrite touches is put on it again, so that
  // walking the function until nothing changes would find nothing more.
  SmallVector<Operation *> ops;
  for (Operation &op : func.getBody().front().without_terminator())
    ops.push_back(&op);
  if (failed(applyOpPatternsGreedily(ops, std::move(patterns))))
    return func.emitError("simplification does not end");
  graph::mergeDuplicates(func);
  return success();
}

} // namespace dtc::kernels
