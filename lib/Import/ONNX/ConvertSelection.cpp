// The largest or smallest elements of each row, and where they are.
#include "Movement.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertTopK(NodeConverter &node) {
  Emitter &emit = node.emit;
  const Tensor &data = node.input(0);
  auto axis = node.axis(node.attrInt("axis", -1), data.rank());
  auto k = node.scalarInt(1, "K");
  if (failed(axis) || failed(k))
    return failure();
  const int64_t size = data.shape()[*axis];
  if (*k < 1 || *k > size)
    return node.error() << "takes a number between 1 and " << size << ": " << *k;
  if (!isa<FloatType>(data.element()))
    return node.error() << "is supported for floats only";
  Shape toLast; // its own inverse: exchanges two dimensions
  for (int64_t i = 0; i < data.rank(); ++i)
    toLast.push_back(i);
  std::swap(toLast[*axis], toLast.back());
  Value rows = transpose(emit, node.value(0), toLast);
  Shape shape(tensorType(rows).getShape());
  shape.back() = *k;
  Value indices = graph::TopKOp::create(emit, RankedTensorType::get(shape, emit.getI64Type()),
                                        rows, node.attrInt("largest", 1) == 0);
  Value values = pickEach(emit, rows, indices);
  if (failed(node.define(1, transpose(emit, indices, toLast))))
    return failure();
  return node.define(transpose(emit, values, toLast));
}

/// The first position (the last one, if asked for) at which the extreme stands; NaN stands for it.
static LogicalResult convertArgExtreme(NodeConverter &node) {
  Emitter &emit = node.emit;
  const Tensor &data = node.input(0);
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  const bool isFloat = isa<FloatType>(data.element());
  if (!isFloat && !data.element().isSignlessInteger(32) && !data.element().isSignlessInteger(64))
    return node.error() << "is not supported on " << data.element();
  using K = graph::ReduceKind;
  const Shape shape = data.shape();
  Shape others;
  for (int64_t i = 0; i < data.rank(); ++i)
    if (i != *axis)
      others.push_back(i);
  Value x = node.value(0);
  Value extreme = reduce(emit, node.op() == "ArgMax" ? K::Max : K::Min, x, {*axis});
  extreme = broadcastAlong(emit, extreme, shape, others);
  Value stands = isFloat ? arith::CmpFOp::create(emit, arith::CmpFPredicate::UEQ, x, extreme)
                         : Value(arith::CmpIOp::create(emit, arith::CmpIPredicate::eq, x, extreme));
  const bool last = node.attrInt("select_last_index", 0);
  auto type = RankedTensorType::get(shape, emit.getI64Type());
  Value position = graph::IotaOp::create(emit, type, *axis);
  // The extreme stands somewhere, so that the farthest position doesn't show where it doesn't.
  Value none = splat(emit, type, last ? 0 : double(shape[*axis] - 1));
  position = arith::SelectOp::create(emit, stands, position, none);
  Value found = reduce(emit, last ? K::Max : K::Min, position, {*axis});
  Shape kept = shape;
  kept[*axis] = 1;
  return node.define(node.attrInt("keepdims", 1) ? reshape(emit, found, kept) : found);
}

void addSelectionConverters(ConverterTable &table) {
  table["TopK"] = convertTopK;
  table["ArgMax"] = convertArgExtreme;
  table["ArgMin"] = convertArgExtreme;
}

} // namespace dtc::import
