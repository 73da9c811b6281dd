#include "dtc/Dialect/Exec/Exec.h"

using namespace mlir;

namespace dtc::exec {
namespace {

/// One tensor of a product: its type, and the grid by which it is addressed.
struct Operand {
  StringRef name;
  RankedTensorType type;
  ArrayRef<int64_t> strides;
  int64_t offset, rows, columns;
};

/// Checks that every element of the grid lies within the tensor.
LogicalResult verifyOperand(MatmulOp op, const Operand &operand) {
  SmallVector<int64_t> sizes(op.getBatch());
  sizes.append({operand.rows, operand.columns});
  if (operand.strides.size() != sizes.size())
    return op.emitOpError() << "has a wrong number of " << operand.name
                            << " strides: " << operand.strides.size();
  int64_t last = operand.offset;
  for (auto [size, stride] : llvm::zip(sizes, operand.strides)) {
    if (size < 1 || stride < 0)
      return op.emitOpError() << "has a " << operand.name << " of bad size or stride: " << size
                              << ", " << stride;
    last += (size - 1) * stride;
  }
  if (operand.offset < 0 || last >= operand.type.getNumElements())
    return op.emitOpError() << "addresses beyond the elements of its " << operand.name << ": "
                            << last;
  return success();
}

int64_t elementsOf(Type type) { return cast<RankedTensorType>(type).getNumElements(); }

/// Which operand and result an epilogue has: how many elements, or none.
struct EpilogueShape {
  int64_t extra = 0, also = 0;
  bool extraIsOptional = false, alsoIsOptional = false;
};

EpilogueShape shapeOf(Epilogue epilogue, int64_t m, int64_t n) {
  switch (epilogue) {
  case Epilogue::Bias:
    return {n, 0};
  case Epilogue::Gelu:
    return {0, m * n, false, true};
  case Epilogue::BiasGelu:
    return {n, m * n, false, true};
  case Epilogue::GeluGrad:
    return {m * n, 0};
  case Epilogue::SumLhs:
    return {m * n, m, true};
  case Epilogue::SumRhs:
    return {m * n, n, true};
  }
  llvm_unreachable("all epilogues handled");
}

LogicalResult verifyWithoutEpilogue(MatmulOp op) {
  if (op.getAlso())
    return op.emitOpError("has more results than one without an epilogue");
  if (!op.getExtra())
    return success();
  Type result = op.getResult().getType(), extra = op.getExtra().getType();
  if (elementsOf(extra) != elementsOf(result) ||
      getElementTypeOrSelf(extra) != getElementTypeOrSelf(result))
    return op.emitOpError() << "adds a tensor that isn't as its result: " << extra;
  return success();
}

LogicalResult verifyEpilogue(MatmulOp op) {
  std::optional<Epilogue> epilogue = op.getEpilogue();
  if (!epilogue)
    return verifyWithoutEpilogue(op);
  int64_t m = op.getMnk()[0], n = op.getMnk()[1];
  if (!op.getBatch().empty() || op.getResultStrides() != ArrayRef<int64_t>{n, 1})
    return op.emitOpError("has an epilogue, but a result that isn't a row-major matrix");
  EpilogueShape shape = shapeOf(*epilogue, m, n);
  for (auto [value, elements, name, isOptional] :
       {std::tuple(op.getExtra(), shape.extra, "extra operand", shape.extraIsOptional),
        {op.getAlso(), shape.also, "second result", shape.alsoIsOptional}}) {
    if (!value && (elements == 0 || isOptional))
      continue;
    if (!value || elements == 0 || elementsOf(value.getType()) != elements ||
        getElementTypeOrSelf(value) != getElementTypeOrSelf(op.getResult()))
      return op.emitOpError() << "has a wrong " << name
                              << " for its epilogue: " << stringifyEpilogue(*epilogue);
  }
  return success();
}

} // namespace

bool MatmulOp::mayAddExtra() {
  std::optional<Epilogue> epilogue = getEpilogue();
  return !epilogue || shapeOf(*epilogue, getMnk()[0], getMnk()[1]).extraIsOptional;
}

LogicalResult MatmulOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (getMnk().size() != 3 || getOffsets().size() != 2)
    return emitOpError("needs three matrix sizes and two offsets");
  if (lhs.getElementType() != rhs.getElementType())
    return emitOpError() << "has operands of different element types: " << lhs.getElementType()
                         << ", " << rhs.getElementType();
  int64_t m = getMnk()[0], n = getMnk()[1], k = getMnk()[2];
  const Operand operands[] = {{"lhs", lhs, getLhsStrides(), getOffsets()[0], m, k},
                              {"rhs", rhs, getRhsStrides(), getOffsets()[1], k, n},
                              {"result", result, getResultStrides(), 0, m, n}};
  for (const Operand &operand : operands)
    if (failed(verifyOperand(*this, operand)))
      return failure();
  int64_t written = m * n;
  for (int64_t size : getBatch())
    written *= size;
  if (written != result.getNumElements())
    return emitOpError() << "writes a wrong number of elements: " << written;
  return verifyEpilogue(*this);
}

} // namespace dtc::exec
