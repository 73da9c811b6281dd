#include "Kernels.h"

#include <numeric>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::interpreter {

Strides stridesOf(ArrayRef<int64_t> shape) {
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i])
    strides[i] = step;
  return strides;
}

int64_t productOf(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

/// out[o] = in[i] over `shape`, with a stride per dimension on either side.
static void copyStrided(Tensor &out, const Tensor &in, ArrayRef<int64_t> shape,
                        ArrayRef<int64_t> outStrides, ArrayRef<int64_t> inStrides,
                        int64_t outStart = 0, int64_t inStart = 0) {
  auto copy = [&](auto &to, const auto &from) {
    forEachIndex(
        shape, outStrides, inStrides, [&](int64_t o, int64_t i) { to[o] = from[i]; }, outStart,
        inStart);
  };
  onElements(copy, out, in);
}

static Tensor evaluateKernel(IotaOp op, Operands) {
  Tensor result(op.getResult().getType());
  int64_t size = result.shape()[op.getDim()];
  int64_t step = productOf(result.shape().drop_front(op.getDim() + 1));
  auto count = [&](auto &out) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int64_t>(i) / step % size;
  };
  onElements(count, result);
  return result;
}

static Tensor evaluateKernel(BroadcastOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  Strides own = stridesOf(operands[0]->shape()), strides(result.rank(), 0);
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    strides[dim] = own[i];
  copyStrided(result, *operands[0], result.shape(), stridesOf(result.shape()), strides);
  return result;
}

static Tensor evaluateKernel(BarrierOp, Operands operands) { return *operands[0]; }

static Tensor evaluateKernel(ReshapeOp op, Operands operands) {
  Tensor result = *operands[0];
  result.type = op.getResult().getType();
  return result;
}

static Tensor evaluateKernel(TransposeOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  Strides own = stridesOf(operands[0]->shape()), strides;
  for (int64_t dim : op.getPerm())
    strides.push_back(own[dim]);
  copyStrided(result, *operands[0], result.shape(), stridesOf(result.shape()), strides);
  return result;
}

static Tensor evaluateKernel(SliceOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  Strides strides = stridesOf(operands[0]->shape());
  int64_t start = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    start += op.getOffsets()[i] * strides[i];
    // One element is not strided over; the product might overflow.
    strides[i] *= result.shape()[i] > 1 ? op.getStrides()[i] : 1;
  }
  copyStrided(result, *operands[0], result.shape(), stridesOf(result.shape()), strides, 0, start);
  return result;
}

static Tensor evaluateKernel(PadOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  const Tensor &input = *operands[0];
  double value = op.getValue().convertToDouble();
  std::fill(result.floats.begin(), result.floats.end(), value);
  std::fill(result.ints.begin(), result.ints.end(), static_cast<int64_t>(value));
  Strides strides = stridesOf(result.shape());
  int64_t start = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    start += op.getLow()[i] * strides[i];
    strides[i] *= input.shape()[i] > 1 ? op.getInterior()[i] + 1 : 1;
  }
  copyStrided(result, input, input.shape(), strides, stridesOf(input.shape()), start);
  return result;
}

static Tensor evaluateKernel(ConcatOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  Strides strides = stridesOf(result.shape());
  int64_t start = 0;
  for (const Tensor *input : operands) {
    copyStrided(result, *input, input->shape(), strides, stridesOf(input->shape()), start);
    start += input->shape()[op.getDim()] * strides[op.getDim()];
  }
  return result;
}

void addShapeKernels(KernelTable &table) {
  table.add<IotaOp>(evaluateKernel);
  table.add<BroadcastOp>(evaluateKernel);
  table.add<ReshapeOp>(evaluateKernel);
  table.add<BarrierOp>(evaluateKernel);
  table.add<TransposeOp>(evaluateKernel);
  table.add<SliceOp>(evaluateKernel);
  table.add<PadOp>(evaluateKernel);
  table.add<ConcatOp>(evaluateKernel);
}

} // namespace dtc::interpreter
