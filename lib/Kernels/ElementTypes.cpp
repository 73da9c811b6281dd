#include "dtc/Kernels/ElementTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dtc::kernels {

Type computeType(Type element) {
  if (element.isBF16() || element.isF16())
    return Float32Type::get(element.getContext());
  return element;
}

int64_t storageBytes(Type element) { return (element.getIntOrFloatBitWidth() + 7) / 8; }

Type storageType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  if (element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  return element;
}

static Value integer(OpBuilder &builder, Location loc, Type type, int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
}

/// In the lower half of 32 bits: the upper half of an f32, rounded to nearest even. NaN stays NaN.
static Value bf16Bits(OpBuilder &builder, Location loc, Value value, Narrowing narrowing) {
  Type i32 = builder.getI32Type();
  if (narrowing == Narrowing::Instruction) {
    Value narrow = arith::TruncFOp::create(builder, loc, builder.getBF16Type(), value);
    narrow = arith::BitcastOp::create(builder, loc, builder.getI16Type(), narrow);
    return arith::ExtUIOp::create(builder, loc, i32, narrow);
  }
  auto constant = [&](int64_t v) { return integer(builder, loc, i32, v); };
  Value bits = arith::BitcastOp::create(builder, loc, i32, value);
  Value odd = arith::AndIOp::create(
      builder, loc, arith::ShRUIOp::create(builder, loc, bits, constant(16)), constant(1));
  Value up = arith::AddIOp::create(builder, loc, bits,
                                   arith::AddIOp::create(builder, loc, odd, constant(0x7fff)));
  Value isNan = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, value, value);
  Value quiet = arith::OrIOp::create(builder, loc, bits, constant(0x400000));
  Value result = arith::SelectOp::create(builder, loc, isNan, quiet, up);
  return arith::ShRUIOp::create(builder, loc, result, constant(16));
}

Value fromStorage(OpBuilder &builder, Location loc, Value value, Type element) {
  if (element.isInteger(1))
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                                 integer(builder, loc, value.getType(), 0));
  if (element.isBF16()) {
    Value wide = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), value);
    wide =
        arith::ShLIOp::create(builder, loc, wide, integer(builder, loc, builder.getI32Type(), 16));
    return arith::BitcastOp::create(builder, loc, builder.getF32Type(), wide);
  }
  if (element.isF16())
    return arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
  return value;
}

Value toStorage(OpBuilder &builder, Location loc, Value value, Type element, Narrowing narrowing) {
  if (element.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, builder.getI8Type(), value);
  if (element.isBF16())
    return arith::TruncIOp::create(builder, loc, builder.getI16Type(),
                                   bf16Bits(builder, loc, value, narrowing));
  if (element.isF16())
    return arith::TruncFOp::create(builder, loc, element, value);
  return value;
}

Value rounded(OpBuilder &builder, Location loc, Value value, Type element, Narrowing narrowing) {
  if (element.isBF16()) {
    Value bits = arith::ShLIOp::create(builder, loc, bf16Bits(builder, loc, value, narrowing),
                                       integer(builder, loc, builder.getI32Type(), 16));
    return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits);
  }
  if (element.isF16())
    return arith::ExtFOp::create(builder, loc, builder.getF32Type(),
                                 arith::TruncFOp::create(builder, loc, element, value).getResult());
  return value;
}

DenseElementsAttr tableOf(DenseElementsAttr elements) {
  Type element = elements.getElementType();
  Builder builder(elements.getContext());
  Type scalar = element.isInteger(1) ? builder.getI8Type() : computeType(element);
  SmallVector<Attribute> values;
  for (Attribute value : elements.getValues<Attribute>()) {
    if (auto number = dyn_cast<FloatAttr>(value))
      value = builder.getFloatAttr(scalar, number.getValueAsDouble());
    else if (element.isInteger(1))
      value = builder.getI8IntegerAttr(cast<IntegerAttr>(value).getValue().getZExtValue());
    values.push_back(value);
  }
  return DenseElementsAttr::get(RankedTensorType::get({elements.getNumElements()}, scalar), values);
}

} // namespace dtc::kernels
