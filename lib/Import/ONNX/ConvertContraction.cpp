// Matrix products in all their forms.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Contraction.h"

#include <map>

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

/// Determinants by expansion along rows: each subset of columns has one for the last rows.
static LogicalResult convertDet(NodeConverter &node) {
  constexpr int64_t kMostRows = 6;
  const Shape shape = node.input(0).shape();
  const int64_t rank = shape.size(), n = rank < 2 ? 0 : shape[rank - 1];
  if (n < 1 || shape[rank - 2] != n || n > kMostRows || !isa<FloatType>(node.input(0).element()))
    return node.error() << "is supported on square matrices of up to " << kMostRows
                        << " rows: " << listed(shape);
  Emitter &emit = node.emit;
  const Shape batch(shape.begin(), shape.end() - 2);
  auto element = [&](int64_t row, int64_t column) {
    Value part =
        sliceDim(emit, sliceDim(emit, node.value(0), rank - 2, row, 1), rank - 1, column, 1);
    return reshape(emit, part, batch);
  };
  std::map<unsigned, Value> minors; // by the set of columns; of as many of the last rows
  for (int64_t column = 0; column < n; ++column)
    minors[1u << column] = element(n - 1, column);
  for (int64_t row = n - 2; row >= 0; --row) {
    std::map<unsigned, Value> larger;
    for (unsigned columns = 1; columns < (1u << n); ++columns) {
      if (llvm::popcount(columns) != n - row)
        continue;
      Value sum;
      bool negative = false;
      for (int64_t column = 0; column < n; ++column) {
        if (!(columns & (1u << column)))
          continue;
        Value term =
            arith::MulFOp::create(emit, element(row, column), minors.at(columns & ~(1u << column)));
        if (!sum)
          sum = term;
        else
          sum = negative ? Value(arith::SubFOp::create(emit, sum, term))
                         : Value(arith::AddFOp::create(emit, sum, term));
        negative = !negative;
      }
      larger[columns] = sum;
    }
    minors = std::move(larger);
  }
  return node.define(minors.begin()->second);
}

void addContractionConverters(ConverterTable &table) {
  table["Det"] = convertDet;
  table["MatMul"] = {convertMatMul, 2};
  table["Gemm"] = {convertGemm, 2};
  table["Einsum"] = Operator(convertEinsum).listsFrom(0);
}

} // namespace dtc::import
