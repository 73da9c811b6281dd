#include "LibraryCalls.h"

#include "dtc/Dialect/Exec/GroupedMatmulOp.h"
#include "dtc/Dialect/Graph/AttentionPartOps.h"

using namespace mlir;

namespace dtc::interpreter {
namespace {

/// Where the elements of a grid lie, in row-major order.
std::vector<int64_t> positions(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, int64_t offset) {
  std::vector<int64_t> result;
  result.reserve(productOf(sizes));
  forEachIndex(sizes, strides, strides, [&](int64_t at, int64_t) { result.push_back(at); }, offset);
  return result;
}

/// Results of ops of the graph, which `build` makes of the arguments of a function.
FailureOr<Tensors> evaluateGraph(Location loc, ArrayRef<Tensor> inputs, Numerics numerics,
                                 function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> build) {
  OpBuilder builder(loc.getContext());
  SmallVector<Type> types =
      llvm::map_to_vector(inputs, [](const Tensor &x) -> Type { return x.type; });
  OwningOpRef<func::FuncOp> function =
      func::FuncOp::create(loc, "call", builder.getFunctionType(types, {}));
  Block *body = function->addEntryBlock();
  builder.setInsertionPointToEnd(body);
  SmallVector<Value> results = build(builder, body->getArguments());
  function->setFunctionType(builder.getFunctionType(types, TypeRange(ValueRange(results))));
  func::ReturnOp::create(builder, loc, results);
  return evaluate(*function, Tensors(inputs.begin(), inputs.end()), numerics);
}

//===-- products ----------------------------------------------------------===//

/// One of the grids of a product: its batch, and along which dimension it has rows and columns.
SmallVector<int64_t> gridStrides(ArrayRef<int64_t> strides, bool hasRows, bool hasColumns) {
  SmallVector<int64_t> result(strides);
  if (!hasRows)
    result[result.size() - 2] = 0;
  if (!hasColumns)
    result.back() = 0;
  return result;
}

Tensor multiply(exec::MatmulOp op, const Tensor &lhs, const Tensor &rhs) {
  const int64_t m = op.getMnk()[0], n = op.getMnk()[1], k = op.getMnk()[2];
  SmallVector<int64_t> sizes(op.getBatch());
  sizes.append({m, n});
  const int64_t lhsStep = op.getLhsStrides().back(),
                rhsStep = op.getRhsStrides().drop_back().back();
  const auto rows =
                 positions(sizes, gridStrides(op.getLhsStrides(), true, false), op.getOffsets()[0]),
             columns =
                 positions(sizes, gridStrides(op.getRhsStrides(), false, true), op.getOffsets()[1]),
             targets = positions(sizes, op.getResultStrides(), 0);
  Tensor result(cast<RankedTensorType>(op.getResult().getType()));
  for (size_t i = 0; i < targets.size(); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += lhs.floats[rows[i] + j * lhsStep] * rhs.floats[columns[i] + j * rhsStep];
    result.floats[targets[i]] = sum;
  }
  return result;
}

/// Products with the matrices of the experts that `choices` name.
Tensor multiplyGrouped(exec::GroupedMatmulOp op, const Tensor &lhs, const Tensor &rhs,
                       const Tensor &choices) {
  const int64_t m = op.getMnk()[0], n = op.getMnk()[1], k = op.getMnk()[2];
  auto begins = [&](ArrayRef<int64_t> strides) {
    return positions(op.getBatch(), strides.drop_back(2), 0);
  };
  auto elements = [](int64_t rows, int64_t columns, ArrayRef<int64_t> strides) {
    return positions({rows, columns}, strides.take_back(2), 0);
  };
  const auto ofLhs = begins(op.getLhsStrides()), ofRhs = begins(op.getRhsStrides()),
             ofResult = begins(op.getResultStrides()), inLhs = elements(m, k, op.getLhsStrides()),
             inRhs = elements(k, n, op.getRhsStrides()),
             inResult = elements(m, n, op.getResultStrides());
  Tensor result(cast<RankedTensorType>(op.getResult().getType()));
  for (size_t product = 0; product < ofLhs.size(); ++product) {
    const int64_t expert = choices.ints[product];
    if (expert < 0 || expert >= static_cast<int64_t>(op.getCount()))
      continue;
    const int64_t a = ofLhs[product] + expert * op.getExperts()[0],
                  b = ofRhs[product] + expert * op.getExperts()[1],
                  c = ofResult[product] + expert * op.getExperts()[2];
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t s = 0; s < k; ++s)
          result.floats[c + inResult[i * n + j]] +=
              lhs.floats[a + inLhs[i * k + s]] * rhs.floats[b + inRhs[s * n + j]];
  }
  return result;
}

/// The sums of an operand's elements over what is multiplied, for each row or column.
Tensor sumOperand(exec::MatmulOp op, const Tensor &operand, ArrayRef<int64_t> strides,
                  int64_t offset) {
  const bool isLhs = *op.getEpilogue() == exec::Epilogue::SumLhs;
  const int64_t k = op.getMnk()[2];
  Tensor sums(cast<RankedTensorType>(op.getAlso().getType()));
  for (int64_t i = 0; i < sums.size(); ++i)
    for (int64_t j = 0; j < k; ++j)
      sums.floats[i] += operand.floats[offset + (isLhs ? i * strides[0] + j * strides[1]
                                                       : j * strides[0] + i * strides[1])];
  return sums;
}

FailureOr<Tensor> gelu(exec::MatmulOp op, const Tensor &input, Numerics numerics) {
  auto results = evaluateGraph(op.getLoc(), input, numerics, [&](OpBuilder &builder, ValueRange x) {
    return SmallVector<Value>{graph::ActivationOp::create(builder, op.getLoc(), x[0].getType(),
                                                          graph::Activation::GeluTanh, x[0])};
  });
  return failed(results) ? FailureOr<Tensor>() : (*results)[0];
}

FailureOr<Tensors> evaluateProduct(exec::MatmulOp op, Operands operands, Numerics numerics) {
  using exec::Epilogue;
  const Tensor &lhs = *operands[0], &rhs = *operands[1];
  Tensor product = multiply(op, lhs, rhs);
  if (op.addsExtra())
    for (size_t i = 0; i < product.floats.size(); ++i)
      product.floats[i] += operands[exec::MatmulOp::kExtra]->floats[i];
  if (!op.getEpilogue())
    return Tensors{std::move(product)};
  const Epilogue epilogue = *op.getEpilogue();
  if (epilogue == Epilogue::SumLhs)
    return Tensors{product, sumOperand(op, lhs, op.getLhsStrides(), op.getOffsets()[0])};
  if (epilogue == Epilogue::SumRhs)
    return Tensors{product, sumOperand(op, rhs, op.getRhsStrides(), op.getOffsets()[1])};
  if (epilogue == Epilogue::GeluGrad) {
    Tensor input = *operands[2];
    input.type = product.type;
    return evaluateGraph(
        op.getLoc(), {input, product}, numerics, [&](OpBuilder &builder, ValueRange values) {
          return SmallVector<Value>{
              graph::ActivationGradOp::create(builder, op.getLoc(), values[0].getType(),
                                              graph::Activation::GeluTanh, values[0], values[1])};
        });
  }
  if (epilogue != Epilogue::Gelu)
    for (size_t i = 0; i < product.floats.size(); ++i)
      product.floats[i] += operands[2]->floats[i % operands[2]->floats.size()];
  if (epilogue == Epilogue::Bias)
    return Tensors{std::move(product)};
  FailureOr<Tensor> activated = gelu(op, product, numerics);
  if (failed(activated))
    return failure();
  Tensors results{std::move(*activated)};
  if (op.getAlso()) {
    product.type = cast<RankedTensorType>(op.getAlso().getType());
    results.push_back(std::move(product));
  }
  return results;
}

//===-- convolutions ------------------------------------------------------===//

FailureOr<Tensors> evaluateConvolution(exec::ConvWeightGradOp op, Operands operands,
                                       Numerics numerics) {
  return evaluateGraph(op.getLoc(),
                       {*operands[0], *operands[1], *operands[exec::ConvWeightGradOp::kBefore]},
                       numerics, [&](OpBuilder &builder, ValueRange in) {
                         Type type = op.getResult().getType();
                         Value gradient = graph::ConvWeightGradOp::create(
                             builder, op.getLoc(), type, in[0], in[1], op.getGroups(),
                             op.getStrides(), op.getPadLow(), op.getPadHigh(), op.getDilations());
                         return SmallVector<Value>{graph::SumOp::create(
                             builder, op.getLoc(), type, ValueRange{in[2], gradient})};
                       });
}

//===-- attention ---------------------------------------------------------===//

Tensor partOf(const Tensor &whole, exec::PlaceAttr place) {
  Tensor part(RankedTensorType::get(place.getShape(), whole.type.getElementType()));
  for (auto [i, at] :
       llvm::enumerate(positions(place.getShape(), place.getStrides(), place.getOffset())))
    part.floats[i] = whole.floats[at];
  return part;
}

SmallVector<Value> buildAttention(exec::AttentionOp op, OpBuilder &builder, ValueRange in) {
  const size_t inputs = op.getInputs().size();
  SmallVector<Type> types;
  for (size_t i = inputs; i < op.getPlaces().size(); ++i)
    types.push_back(
        RankedTensorType::get(op.placeOf(i).getShape(), getElementTypeOrSelf(op.valueOf(i))));
  const Value bias = op.hasBias() ? in.back() : Value();
  if (!op.getBackward())
    return llvm::to_vector_of<Value>(graph::AttentionOp::create(builder, op.getLoc(), types, in[0],
                                                                in[1], in[2], bias, op.getScale(),
                                                                op.getCausal(), op.getWindowAttr())
                                         ->getResults());
  // Libraries take the statistics as they are given: in a ring those of keys on other ranks, too.
  if (!bias && (!op.getCausal() || op.placeOf(0).getShape()[1] == op.placeOf(1).getShape()[1]))
    return llvm::to_vector_of<Value>(
        graph::AttentionPartGradOp::create(builder, op.getLoc(), types, in[0], in[1], in[2], in[3],
                                           in[4], in[5], op.getScale(), op.getCausal(),
                                           op.getWindowAttr())
            ->getResults());
  return llvm::to_vector_of<Value>(
      graph::AttentionGradOp::create(builder, op.getLoc(), types, in[0], in[1], in[2], in[3], in[4],
                                     in[5], bias, op.getScale(), op.getCausal(), op.getWindowAttr())
          ->getResults());
}

FailureOr<Tensors> evaluateAttention(exec::AttentionOp op, Operands operands, Numerics numerics) {
  Tensors inputs;
  for (auto [i, operand] : llvm::enumerate(operands))
    inputs.push_back(partOf(*operand, op.placeOf(i)));
  auto computed =
      evaluateGraph(op.getLoc(), inputs, numerics, [&](OpBuilder &builder, ValueRange in) {
        return buildAttention(op, builder, in);
      });
  if (failed(computed))
    return failure();
  Tensors results;
  for (Type type : op.getResultTypes())
    results.emplace_back(cast<RankedTensorType>(type));
  for (auto [i, part] : llvm::enumerate(*computed)) {
    exec::PlaceAttr place = op.placeOf(operands.size() + i);
    Tensor &whole = results[op.getInto()[i]];
    for (auto [j, at] :
         llvm::enumerate(positions(place.getShape(), place.getStrides(), place.getOffset())))
      whole.floats[at] = part.floats[j];
  }
  return results;
}

} // namespace

bool isCallOnParts(Operation *op) {
  return isa<exec::MatmulOp, exec::GroupedMatmulOp, exec::ConvWeightGradOp, exec::AttentionOp>(op);
}

FailureOr<Tensors> evaluateCallOnParts(Operation *op, Operands operands, Numerics numerics) {
  if (auto product = dyn_cast<exec::MatmulOp>(op))
    return evaluateProduct(product, operands, numerics);
  if (auto grouped = dyn_cast<exec::GroupedMatmulOp>(op))
    return Tensors{multiplyGrouped(grouped, *operands[0], *operands[1], *operands[2])};
  if (auto convolution = dyn_cast<exec::ConvWeightGradOp>(op))
    return evaluateConvolution(convolution, operands, numerics);
  return evaluateAttention(cast<exec::AttentionOp>(op), operands, numerics);
}

} // namespace dtc::interpreter
