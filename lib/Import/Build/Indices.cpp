#include "dtc/Import/Build/Indices.h"
#include "dtc/Raise/IndexRange.h"

using namespace mlir;

namespace dtc::import {

Host normalizeIndices(Conversion &node, const Host &indices, int64_t size) {
  auto result = std::make_shared<HostTensor>(*indices);
  for (int64_t &index : result->ints) {
    if (index < -size || index >= size) {
      node.error() << "index out of range for size " << size << ": " << index;
      return {};
    }
    if (index < 0)
      index += size;
  }
  return result;
}

Value gatherAtConstants(Emitter &emit, Value table, const HostTensor &indices, int64_t axis) {
  Shape core, dims;
  for (size_t i = 0; i < indices.shape.size(); ++i)
    if (indices.stored[i] != 1) {
      core.push_back(indices.stored[i]);
      dims.push_back(axis + i);
    }
  const Shape full(tensorType(table).getShape());
  const auto &list = indices.ints;
  const int64_t step = list.size() > 1 ? list[1] - list[0] : 1;
  bool even = step > 0;
  for (size_t i = 0; i < list.size(); ++i)
    even &= list[i] == list[0] + int64_t(i) * step;
  auto around = [&](const Shape &inner) {
    Shape shape(full.begin(), full.begin() + axis);
    shape.append(inner);
    shape.append(full.begin() + axis + 1, full.end());
    return shape;
  };
  Value rows;
  if (even) {
    rows = sliceDim(emit, table, axis, list[0], list.size(), step);
    rows = reshape(emit, rows, around(core));
  } else {
    HostTensor distinct = indices;
    distinct.shape = distinct.stored = core;
    Value at = toValue(emit, emit.getLoc(), distinct);
    rows = gather(emit, table, at, axis);
  }
  Shape along;
  for (int64_t i = 0; i < axis; ++i)
    along.push_back(i);
  along.append(dims);
  for (size_t i = axis + 1; i < full.size(); ++i)
    along.push_back(i - 1 + indices.shape.size());
  return broadcastAlong(emit, rows, around(indices.shape), along);
}

/// Whether a value holds elements of an input of the model as they are. dtc-run checks those
/// against the sizes that they index (annotateIndexLimits).
static bool isCheckedInput(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto role = graph::getArgRole(func, argument.getArgNumber());
    return role && role.getKind() == graph::RoleKind::Input;
  }
  Operation *op = value.getDefiningOp();
  return isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::BroadcastOp,
             arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op) &&
         isCheckedInput(op->getOperand(0));
}

FailureOr<RunTimeIndices> runTimeIndices(Conversion &node, Value indices, Type element,
                                         int64_t size) {
  if (isCheckedInput(indices))
    return RunTimeIndices{indices, {}};
  return computedIndices(node, indices, element, size);
}

FailureOr<RunTimeIndices> computedIndices(Conversion &node, Value indices, Type element,
                                          int64_t size) {
  using Predicate = arith::CmpIPredicate;
  Emitter &emit = node.emit;
  if (!isa<FloatType>(element)) {
    std::optional<IndexRange> range = rangeOf(indices);
    if (!range || range->low < -size || range->high >= size) {
      InFlightDiagnostic error = node.error();
      error << "takes integers at computed indices that may be outside of the " << size
            << " there are";
      if (range)
        error << ": from " << range->low << " to " << range->high;
      return error;
    }
  }
  Value at = castTo(emit, indices, emit.getI64Type());
  Value negative = arith::CmpIOp::create(emit, Predicate::slt, at, splatLike(emit, at, 0));
  Value wrapped = arith::AddIOp::create(emit, at, splatLike(emit, at, size));
  at = arith::SelectOp::create(emit, negative, wrapped, at);
  Value inside = arith::CmpIOp::create(emit, Predicate::ult, at, splatLike(emit, at, size));
  return RunTimeIndices{at, inside};
}

Value refuseOutside(Emitter &emit, Value found, const RunTimeIndices &indices,
                    ArrayRef<int64_t> dims) {
  if (!indices.inside || !isa<FloatType>(elementOf(found)))
    return found;
  Value inside = broadcastAlong(emit, indices.inside, tensorType(found).getShape(), dims);
  Value nan = splatLike(emit, found, std::numeric_limits<double>::quiet_NaN());
  return arith::SelectOp::create(emit, inside, found, nan);
}

} // namespace dtc::import
