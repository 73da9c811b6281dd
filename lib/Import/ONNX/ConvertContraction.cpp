// Matrix products in all their forms.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Contraction.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertMatMul(NodeConverter &node) {
  return node.define(matmulTensors(node, node.input(0), node.input(1)));
}

static Value scaled(Emitter &emit, Value value, double factor) {
  if (factor == 1)
    return value;
  return arith::MulFOp::create(emit, value, splatLike(emit, value, factor));
}

static bool isZero(const Tensor &tensor) {
  return tensor.host && tensor.host->isSplat() && tensor.host->number(0) == 0;
}

static LogicalResult convertGemm(NodeConverter &node) {
  const bool transA = node.attrInt("transA", 0), transB = node.attrInt("transB", 0);
  const Shape a = node.input(0).shape(), b = node.input(1).shape();
  if (a.size() != 2 || b.size() != 2 || a[transA ? 0 : 1] != b[transB ? 1 : 0] ||
      !isa<FloatType>(node.input(0).element()) ||
      node.input(0).element() != node.input(1).element())
    return node.error() << "operands of shapes or types that do not fit: "
                        << listed(a) << " and " << listed(b);
  Emitter &emit = node.emit;
  Value result = contract(emit, node.value(0), transA ? Shape{2, 0} : Shape{0, 2}, node.value(1),
                          transB ? Shape{1, 2} : Shape{2, 1}, {0, 1});
  result = scaled(emit, result, node.attrFloat("alpha", 1));
  const double beta = node.attrFloat("beta", 1);
  if (node.has(2) && beta != 0 && !isZero(node.input(2))) {
    Shape shape(tensorType(result).getShape());
    auto common = broadcastShapes({shape, node.input(2).shape()});
    if (failed(common) || *common != shape)
      return node.error() << "has a bias of a shape that does not fit";
    result = arith::AddFOp::create(
        emit, result, scaled(emit, node.valueAs(node.input(2), shape), beta));
  }
  return node.define(result);
}

static LogicalResult convertEinsum(NodeConverter &node) {
  SmallVector<Tensor> operands;
  for (int i = 0; i < node.numInputs(); ++i)
    operands.push_back(node.input(i));
  return node.define(einsum(node, node.attrString("equation", ""), operands));
}

void addContractionConverters(ConverterTable &table) {
  table["MatMul"] = convertMatMul;
  table["Gemm"] = convertGemm;
  table["Einsum"] = convertEinsum;
}

} // namespace dtc::import
