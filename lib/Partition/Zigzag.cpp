#include "Zigzag.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;
using namespace dtc::graph;
using namespace dtc::sharding;

namespace dtc::partition {

/// Where the axis that splits in zig-zag is in the list; its size where it isn't.
static size_t positionIn(const AxisList &axes, const NamedMesh &mesh) {
  return mesh.zigzag ? llvm::find(axes, *mesh.zigzag) - axes.begin() : axes.size();
}

bool areInZigzag(const AxisList &axes, const NamedMesh &mesh) {
  return positionIn(axes, mesh) < axes.size();
}

static AxisList before(const AxisList &axes, size_t at) {
  return {axes.begin(), axes.begin() + at};
}

static AxisList behind(const AxisList &axes, size_t at) {
  return {axes.begin() + at + 1, axes.end()};
}

LogicalResult checkZigzag(Operation *op, const ShardingRule &rule, const OpSharding &choice,
                          const NamedMesh &mesh) {
  for (auto [factor, axes] : llvm::zip_equal(rule.factors, choice.factors)) {
    size_t at = positionIn(axes, mesh);
    if (at == axes.size())
      continue;
    int64_t chunks = 2 * mesh.mesh.size(before(axes, at)) * mesh.mesh.axes[*mesh.zigzag].size;
    if (factor.size % chunks != 0)
      return op->emitOpError("has a size that zig-zag parts can't divide into ")
             << chunks << " chunks: " << factor.size;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Order of chunks
//===----------------------------------------------------------------------===//

Value sliceAlong(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t begin,
                 int64_t size) {
  SmallVector<int64_t> shape(shapeOf(value)), offsets(shape.size(), 0), strides(shape.size(), 1);
  shape[dim] = size;
  offsets[dim] = begin;
  auto type = cast<RankedTensorType>(value.getType()).clone(shape);
  return SliceOp::create(builder, loc, type, value, offsets, strides);
}

Value joinAlong(OpBuilder &builder, Location loc, ValueRange parts, int64_t dim) {
  SmallVector<int64_t> shape(shapeOf(parts[0]));
  shape[dim] = 0;
  for (Value part : parts)
    shape[dim] += shapeOf(part)[dim];
  auto type = cast<RankedTensorType>(parts[0].getType()).clone(shape);
  return ConcatOp::create(builder, loc, type, parts, dim);
}

/// The chunks of what these axes divide, in another order; of nothing in zig-zag, the value as it
/// is. `orderFor` says by place which of the chunks of so many ranks goes there.
static Value reordered(OpBuilder &builder, Location loc, Value value, int64_t dim,
                       const AxisList &axes, const NamedMesh &mesh,
                       function_ref<SmallVector<int64_t>(int64_t ranks)> orderFor) {
  size_t at = positionIn(axes, mesh);
  if (at == axes.size())
    return value;
  const SmallVector<int64_t> order = orderFor(mesh.mesh.axes[*mesh.zigzag].size);
  auto chunks = static_cast<int64_t>(order.size());
  int64_t outer = mesh.mesh.size(before(axes, at)), size = shapeOf(value)[dim] / (outer * chunks);
  SmallVector<Value> parts;
  for (int64_t part = 0; part < outer; ++part)
    for (int64_t chunk : order)
      parts.push_back(sliceAlong(builder, loc, value, dim, (part * chunks + chunk) * size, size));
  return joinAlong(builder, loc, parts, dim);
}

Value toZigzag(OpBuilder &builder, Location loc, Value value, int64_t dim, const AxisList &axes,
               const NamedMesh &mesh) {
  return reordered(builder, loc, value, dim, axes, mesh, [](int64_t ranks) {
    SmallVector<int64_t> order;
    for (int64_t rank = 0; rank < ranks; ++rank)
      order.append({rank, 2 * ranks - 1 - rank});
    return order;
  });
}

Value fromZigzag(OpBuilder &builder, Location loc, Value value, int64_t dim, const AxisList &axes,
                 const NamedMesh &mesh) {
  return reordered(builder, loc, value, dim, axes, mesh, [](int64_t ranks) {
    SmallVector<int64_t> order;
    for (int64_t chunk = 0; chunk < 2 * ranks; ++chunk)
      order.push_back(chunk < ranks ? 2 * chunk : 2 * (2 * ranks - 1 - chunk) + 1);
    return order;
  });
}

//===----------------------------------------------------------------------===//
// Ops that ask where their shards begin
//===----------------------------------------------------------------------===//

static Value scalar(TensorBuilder &b, int64_t value) {
  return b.integer(RankedTensorType::get({}, b.builder.getI64Type()), value);
}

/// The position within the axes, times a number.
static Value scaledIndex(TensorBuilder &b, const NamedMesh &mesh, const AxisList &axes,
                         int64_t scale) {
  auto type = RankedTensorType::get({}, b.builder.getI64Type());
  Value index = dist::AxisIndexOp::create(b.builder, b.loc, type, mesh.name,
                                          dist::toAttr(b.builder.getContext(), axes, mesh.mesh));
  return arith::MulIOp::create(b.builder, b.loc, index, scalar(b, scale));
}

Value ShardBuilder::offset(OpBuilder &builder, FactorId factor, int64_t chunk) {
  const AxisList &axes = choice.factors[factor];
  if (axes.empty())
    return {};
  if (size_t at = positionIn(axes, mesh); at < axes.size())
    return offsetInZigzag(builder, factor, at, chunk);
  TensorBuilder b(builder, op->getLoc());
  return scaledIndex(b, mesh, axes, rule.factors[factor].size / mesh.mesh.size(axes));
}

/// Axes behind the one in zig-zag cut the two chunks into equally many parts, so that each part
/// lies in one of them. Without such axes, chunks are asked for one by one.
Value ShardBuilder::offsetInZigzag(OpBuilder &builder, FactorId factor, size_t at, int64_t chunk) {
  const AxisList &axes = choice.factors[factor];
  TensorBuilder b(builder, op->getLoc());
  int64_t ranks = mesh.mesh.axes[*mesh.zigzag].size, inner = mesh.mesh.size(behind(axes, at));
  int64_t outer = rule.factors[factor].size / mesh.mesh.size(before(axes, at));
  int64_t size = outer / (2 * ranks);
  if (inner == 1 || inner % 2 != 0)
    inChunks = factor;
  Value first = scaledIndex(b, mesh, {*mesh.zigzag}, size);
  Value second = arith::SubIOp::create(b.builder, b.loc, scalar(b, (2 * ranks - 1) * size), first);
  Value begin = chunk == 0 ? first : second;
  if (inner > 1) {
    int64_t part = 2 * size / inner;
    Value within = scaledIndex(b, mesh, behind(axes, at), part);
    Value isFirst = b.compare(arith::CmpIPredicate::slt, within, size);
    Value later = arith::AddIOp::create(
        b.builder, b.loc, second, arith::SubIOp::create(b.builder, b.loc, within, scalar(b, size)));
    begin = b.select(isFirst, arith::AddIOp::create(b.builder, b.loc, first, within), later);
  }
  if (at == 0)
    return begin;
  return arith::AddIOp::create(b.builder, b.loc, begin,
                               scaledIndex(b, mesh, before(axes, at), outer));
}

FailureOr<int64_t> ShardBuilder::dimOf(const TensorFactors &tensor) const {
  int64_t found = -1;
  for (auto [dim, factors] : llvm::enumerate(tensor))
    for (auto [place, factor] : llvm::enumerate(factors)) {
      if (factor != inChunks)
        continue;
      bool isMajor = llvm::all_of(ArrayRef(factors).take_front(place), [&](FactorId major) {
        return rule.factors[major].size == mesh.mesh.size(choice.factors[major]);
      });
      if (found >= 0 || !isMajor)
        return failure();
      found = static_cast<int64_t>(dim);
    }
  return found;
}

FailureOr<SmallVector<Value>> ShardBuilder::buildInChunks(OpBuilder &builder, ValueRange operands,
                                                          TypeRange types) {
  const FactorId factor = inChunks;
  if (mesh.mesh.size(behind(choice.factors[factor], positionIn(choice.factors[factor], mesh))) > 1)
    return failure();
  SmallVector<SmallVector<Value>> chunks; // of each result
  chunks.resize(types.size());
  for (int64_t chunk = 0; chunk < 2; ++chunk) {
    SmallVector<Value> parts(operands);
    SmallVector<Type> partTypes;
    for (auto [i, part] : llvm::enumerate(parts)) {
      FailureOr<int64_t> dim = dimOf(rule.operands[i]);
      if (failed(dim))
        return failure();
      if (*dim < 0)
        continue;
      int64_t size = shapeOf(part)[*dim] / 2;
      part = sliceAlong(builder, op->getLoc(), part, *dim, chunk * size, size);
    }
    for (auto [i, type] : llvm::enumerate(types)) {
      FailureOr<int64_t> dim = dimOf(rule.results[i]);
      if (failed(dim) || *dim < 0)
        return failure();
      auto whole = cast<RankedTensorType>(type);
      SmallVector<int64_t> shape(whole.getShape());
      shape[*dim] /= 2;
      partTypes.push_back(whole.clone(shape));
    }
    LocalContext context{rule, choice, mesh.mesh, [&](OpBuilder &b, FactorId asked) {
                           return offset(b, asked, asked == factor ? chunk : 0);
                         }};
    FailureOr<SmallVector<Value>> results =
        cast<ShardingRuleOpInterface>(op).buildLocal(builder, parts, partTypes, context);
    if (failed(results) || inChunks != factor ||
        TypeRange(ValueRange(*results)) != TypeRange(partTypes))
      return failure();
    for (auto [all, result] : llvm::zip_equal(chunks, *results))
      all.push_back(result);
  }
  SmallVector<Value> joined;
  for (auto [i, parts] : llvm::enumerate(chunks))
    joined.push_back(joinAlong(builder, op->getLoc(), parts, *dimOf(rule.results[i])));
  return joined;
}

FailureOr<SmallVector<Value>> ShardBuilder::build(OpBuilder &builder, ValueRange operands,
                                                  TypeRange types) {
  LocalContext context{rule, choice, mesh.mesh,
                       [&](OpBuilder &b, FactorId factor) { return offset(b, factor, 0); }};
  FailureOr<SmallVector<Value>> results =
      cast<ShardingRuleOpInterface>(op).buildLocal(builder, operands, types, context);
  return inChunks < 0 ? results : buildInChunks(builder, operands, types); // the others are dead
}

} // namespace dtc::partition
