// The largest or smallest elements of each row.
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

void addTopKConverter(ConverterTable &table) { table["TopK"] = convertTopK; }

} // namespace dtc::import
