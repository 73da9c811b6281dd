// BitShift, from products and quotients: a shift by 13 is one by 8, one by 4 and one by 1.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

/// The quotient by a positive number, rounded down.
static Value floorDivide(TensorBuilder &b, Value value, int64_t divisor) {
  Value by = b.integer(value.getType(), divisor);
  Value quotient = arith::DivSIOp::create(b.builder, b.loc, value, by);
  Value rest = arith::SubIOp::create(b.builder, b.loc, value,
                                     arith::MulIOp::create(b.builder, b.loc, quotient, by));
  Value lower = arith::AddIOp::create(b.builder, b.loc, quotient, b.integer(value.getType(), -1));
  return b.select(b.compare(arith::CmpIPredicate::slt, rest, 0), lower, quotient);
}

static LogicalResult convertBitShift(NodeConverter &node) {
  const std::string direction = node.attrString("direction", "");
  const Type element = node.input(0).element();
  auto shape = broadcastShapes({node.input(0).shape(), node.input(1).shape()});
  if (direction != "LEFT" && direction != "RIGHT")
    return node.error() << "has an unknown direction: " << direction;
  if (failed(shape) || element != node.input(1).element() || element.isUnsignedInteger() ||
      !isa<IntegerType>(element) || element.isInteger(1))
    return node.error() << "needs signed integers of shapes that fit";
  Emitter &emit = node.emit;
  TensorBuilder b(emit, emit.getLoc());
  Value x = node.valueAs(node.input(0), *shape), by = node.valueAs(node.input(1), *shape);
  const int64_t width = element.getIntOrFloatBitWidth();
  auto number = [&](int64_t value) { return b.integer(x.getType(), value); };
  Value fits = arith::AndIOp::create(emit, b.compare(arith::CmpIPredicate::sge, by, 0),
                                     b.compare(arith::CmpIPredicate::slt, by, width));
  Value result = x;
  for (int64_t bit = 1; bit < width; bit *= 2) {
    Value set = b.compare(arith::CmpIPredicate::ne,
                          arith::AndIOp::create(emit, by, number(bit)).getResult(), 0);
    const int64_t factor = int64_t(1) << bit;
    Value shifted = direction == "LEFT" ? Value(arith::MulIOp::create(emit, result, number(factor)))
                                        : floorDivide(b, result, factor);
    result = b.select(set, shifted, result);
  }
  Value beyond = number(0); // all bits are shifted out
  if (direction == "RIGHT")
    beyond = b.select(b.compare(arith::CmpIPredicate::slt, x, 0), number(-1), beyond);
  return node.define(b.select(fits, result, beyond));
}

void addShiftConverters(ConverterTable &table) { table["BitShift"] = {convertBitShift, 2}; }

} // namespace dtc::import
