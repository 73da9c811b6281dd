#include "dtc/Import/Build/ScatterAt.h"

#include "dtc-io/CheckedSize.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Indices.h"

using namespace mlir;

namespace dtc::import {

using graph::ReduceKind;

namespace {
/// Rows in the last dimension, with what is written to them and where. `inside` may be null.
struct Rows {
  Value data, at, updates, inside;
};
} // namespace

/// A step of more than these takes minutes.
static LogicalResult checkComparisons(Conversion &node, ArrayRef<int64_t> sizes) {
  if (io::CheckedSize::product(sizes).isAtMost(int64_t(1) << 38))
    return success();
  return node.error() << "writes at positions of run time: a step would compare too many elements "
                         "with them, which may be 2^38 pairs of an element and a position";
}

static Shape shapeOf(Value value) { return Shape(tensorType(value).getShape()); }

static Value iota(Emitter &emit, ArrayRef<int64_t> shape, int64_t dim) {
  return graph::IotaOp::create(emit, RankedTensorType::get(shape, emit.getI64Type()), dim);
}

/// [rows..., elements, indices]: whether the index is the element's position.
static Value hits(Emitter &emit, Value at, int64_t size) {
  Shape shape = shapeOf(at), dims;
  shape.insert(shape.end() - 1, size);
  const int64_t rank = shape.size();
  for (int64_t i = 0; i < rank; ++i)
    if (i != rank - 2)
      dims.push_back(i);
  return arith::CmpIOp::create(emit, arith::CmpIPredicate::eq,
                               broadcastAlong(emit, at, shape, dims), iota(emit, shape, rank - 2));
}

/// [rows..., elements]: the last index that hits each; -1 where none does.
static Value lastHit(Emitter &emit, Value hit) {
  const int64_t last = tensorType(hit).getRank() - 1;
  Value order = iota(emit, shapeOf(hit), last);
  Value none = splatLike(emit, order, -1);
  return reduce(emit, ReduceKind::Max, arith::SelectOp::create(emit, hit, order, none), {last});
}

static Value isWritten(Emitter &emit, Value last) {
  return arith::CmpIOp::create(emit, arith::CmpIPredicate::sge, last, splatLike(emit, last, 0));
}

StringRef combinationOf(Write write) {
  switch (write) {
  case Write::Replace:
    return "";
  case Write::Add:
    return "Add";
  case Write::Multiply:
    return "Mul";
  case Write::Max:
    return "Max";
  case Write::Min:
    return "Min";
  }
  llvm_unreachable("all ways of writing are listed");
}

/// Elements that nothing hits meet what leaves them as they are: the sum 0, the product 1, and
/// extremes themselves.
static FailureOr<Value> combineRows(Conversion &node, const Rows &rows, Write write) {
  Emitter &emit = node.emit;
  const Shape shape = shapeOf(rows.data);
  Value hit = hits(emit, rows.at, shape.back());
  const Shape wide = shapeOf(hit);
  const int64_t rank = wide.size();
  Shape dims, own;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != rank - 2)
      dims.push_back(i);
    if (i != rank - 1)
      own.push_back(i);
  }
  Value terms = broadcastAlong(emit, rows.updates, wide, dims);
  const bool isExtreme = write == Write::Max || write == Write::Min;
  Value neutral = isExtreme ? broadcastAlong(emit, rows.data, wide, own)
                            : splatLike(emit, terms, write == Write::Multiply);
  terms = arith::SelectOp::create(emit, hit, terms, neutral);
  const ReduceKind kind = write == Write::Add        ? ReduceKind::Sum
                          : write == Write::Multiply ? ReduceKind::Prod
                          : write == Write::Max      ? ReduceKind::Max
                                                     : ReduceKind::Min;
  Value combined = reduce(emit, kind, terms, {rank - 1});
  auto result = binary(node, combinationOf(write), Tensor(rows.data), Tensor(combined));
  return failed(result) ? FailureOr<Value>(failure()) : node.value(*result);
}

static Value replaceElements(Emitter &emit, const Rows &rows) {
  Value last = lastHit(emit, hits(emit, rows.at, shapeOf(rows.data).back()));
  Value found = pickEach(emit, rows.updates, last);
  return arith::SelectOp::create(emit, isWritten(emit, last), found, rows.data);
}

/// NaN in all rows of which a position is outside.
static Value refuseRows(Emitter &emit, Value result, const Rows &rows) {
  if (!rows.inside)
    return result;
  const int64_t last = tensorType(rows.inside).getRank() - 1;
  Value all = reduce(emit, ReduceKind::Min, castTo(emit, rows.inside, emit.getI32Type()), {last});
  all = arith::CmpIOp::create(emit, arith::CmpIPredicate::ne, all, splatLike(emit, all, 0));
  return refuseOutside(emit, result, {Value(), all}, llvm::to_vector(llvm::seq<int64_t>(last)));
}

/// Booleans are written as integers.
static FailureOr<Value> writeRows(Conversion &node, Rows rows, Write write) {
  Emitter &emit = node.emit;
  const bool isBool = elementOf(rows.data).isInteger(1);
  if (isBool && write != Write::Replace)
    return LogicalResult(node.error() << "has a reduction of booleans");
  for (Value *value : {&rows.data, &rows.updates})
    *value = isBool ? castTo(emit, *value, emit.getI32Type()) : *value;
  FailureOr<Value> result = write == Write::Replace ? FailureOr<Value>(replaceElements(emit, rows))
                                                    : combineRows(node, rows, write);
  if (failed(result))
    return failure();
  return isBool ? castTo(emit, *result, emit.getI1Type()) : refuseRows(emit, *result, rows);
}

FailureOr<Tensor> scatterAlong(Conversion &node, const Tensor &data, Value at,
                               const Tensor &updates, int64_t axis, Write write) {
  Emitter &emit = node.emit;
  auto indices = computedIndices(node, at, data.element(), data.shape()[axis]);
  if (failed(indices))
    return failure();
  Shape pairs = data.shape();
  pairs.push_back(shapeOf(at)[axis]);
  if (failed(checkComparisons(node, pairs)))
    return failure();
  Shape toLast = llvm::to_vector(llvm::seq<int64_t>(data.rank())); // its own inverse
  std::swap(toLast[axis], toLast.back());
  auto turned = [&](Value value) { return value ? transpose(emit, value, toLast) : value; };
  auto result = writeRows(node,
                          {turned(node.value(data)), turned(indices->at),
                           turned(node.value(updates)), turned(indices->inside)},
                          write);
  return failed(result) ? FailureOr<Tensor>(failure()) : Tensor(turned(*result));
}

/// The positions of several components as those of one, row by row.
static FailureOr<RunTimeIndices> mergeComponents(Conversion &node, ArrayRef<Value> components,
                                                 Type element, ArrayRef<int64_t> sizes) {
  Emitter &emit = node.emit;
  RunTimeIndices merged;
  for (auto [component, size] : llvm::zip(components, sizes)) {
    auto next = computedIndices(node, component, element, size);
    if (failed(next))
      return failure();
    if (!merged.at) {
      merged = *next;
      continue;
    }
    merged.at = arith::AddIOp::create(
        emit, arith::MulIOp::create(emit, merged.at, splatLike(emit, merged.at, size)), next->at);
    merged.inside = arith::AndIOp::create(emit, merged.inside, next->inside);
  }
  return merged;
}

FailureOr<Tensor> scatterRows(Conversion &node, const Tensor &data, ArrayRef<Value> components,
                              const Tensor &updates, Write write) {
  Emitter &emit = node.emit;
  const Shape shape = data.shape();
  const auto indexed = ArrayRef(shape).take_front(components.size());
  auto indices = mergeComponents(node, components, data.element(), indexed);
  if (failed(indices))
    return failure();
  const int64_t count = product(shapeOf(indices->at)), size = product(indexed);
  const int64_t width = product(ArrayRef(shape).drop_front(components.size()));
  const bool wholeRows = write == Write::Replace && !data.element().isInteger(1);
  if (failed(checkComparisons(node, {size, count, wholeRows ? 1 : width})))
    return failure();
  Value at = reshape(emit, indices->at, {count});
  Value table = reshape(emit, node.value(data), {size, width});
  Value rows = reshape(emit, node.value(updates), {count, width});
  Value result;
  if (wholeRows) {
    Value last = lastHit(emit, hits(emit, at, size));
    Value written = broadcastAlong(emit, isWritten(emit, last), {size, width}, {0});
    result = arith::SelectOp::create(emit, written, gather(emit, rows, last, 0), table);
  } else {
    Value repeated = broadcastAlong(emit, at, {width, count}, {1});
    auto turned = writeRows(
        node, {transpose(emit, table, {1, 0}), repeated, transpose(emit, rows, {1, 0}), {}}, write);
    if (failed(turned))
      return failure();
    result = transpose(emit, *turned, {1, 0});
  }
  const Rows outside = {{}, {}, {}, reshape(emit, indices->inside, {count})};
  return Tensor(reshape(emit, refuseRows(emit, result, outside), shape));
}

} // namespace dtc::import
