#include "KernelTest.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace dtc::interpreter;

namespace dtc::test {
namespace {

int64_t bytesOf(Type element) { return (element.getIntOrFloatBitWidth() + 7) / 8; }

Buffer toBuffer(const Tensor &tensor) {
  Type element = tensor.type.getElementType();
  int64_t size = bytesOf(element);
  Buffer buffer(tensor.size() * size);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = tensor.isFloat() ? 0 : tensor.ints[i];
    if (auto type = dyn_cast<FloatType>(element)) {
      APFloat value(tensor.floats[i]);
      bool lossy;
      value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
      bits = value.bitcastToAPInt().getZExtValue();
    }
    std::memcpy(buffer.data() + i * size, &bits, size);
  }
  return buffer;
}

Tensor fromBuffer(const Buffer &buffer, RankedTensorType tensorType) {
  Tensor tensor(tensorType);
  Type element = tensorType.getElementType();
  int64_t size = bytesOf(element);
  unsigned width = element.getIntOrFloatBitWidth();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, buffer.data() + i * size, size);
    if (auto type = dyn_cast<FloatType>(element)) {
      APFloat value(type.getFloatSemantics(), APInt(width, bits));
      bool lossy;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      tensor.floats[i] = value.convertToDouble();
    } else {
      tensor.ints[i] = width == 1 ? bits & 1 : APInt(width, bits, false, true).getSExtValue();
    }
  }
  return tensor;
}

double toleranceOf(Type element, double ofFloats) {
  if (element.isBF16())
    return 1e-2;
  if (element.isF16())
    return 2e-3;
  if (element.isF64())
    return 1e-11;
  return isa<FloatType>(element) ? ofFloats : 0.0;
}

/// What is too large for the tensor's type becomes its infinity, as in the program.
void overflow(Tensor &exact) {
  Tensor rounded = exact;
  roundToType(rounded);
  for (auto [value, inType] : llvm::zip_equal(exact.floats, rounded.floats))
    if (std::isinf(inType))
      value = inType;
}

/// The kernel's body as a function.
func::FuncOp asFunction(exec::KernelOp kernel, ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Block &body = kernel.getBody().front();
  auto type = builder.getFunctionType(body.getArgumentTypes(), kernel.getYield().getOperandTypes());
  auto func = func::FuncOp::create(builder, kernel.getLoc(), kernel.getSymName(), type);
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(body.getArguments(), entry->getArguments());
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> results;
  for (Value value : kernel.getYield().getValues())
    results.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, kernel.getLoc(), results);
  return func;
}

/// A sum by buckets has those of its indices, whatever was drawn for them.
LogicalResult sortBuckets(func::FuncOp func, Tensors &inputs) {
  for (graph::ScatterAddOp op : func.getOps<graph::ScatterAddOp>()) {
    auto buckets = dyn_cast_or_null<BlockArgument>(op.getBuckets()),
         indices = dyn_cast<BlockArgument>(op.getIndices());
    if (!buckets || !indices)
      continue;
    OpBuilder builder(op);
    const int64_t rows = cast<RankedTensorType>(op.getType()).getDimSize(op.getAxis());
    auto sorting = graph::BucketIndicesOp::create(builder, op.getLoc(), buckets.getType(), indices,
                                                  rows, *op.getBucketRows());
    FailureOr<Tensors> sorted =
        evaluate(sorting.getOperation(), Tensors{inputs[indices.getArgNumber()]});
    sorting.erase();
    if (failed(sorted))
      return failure();
    inputs[buckets.getArgNumber()] = sorted->front();
  }
  return success();
}

Tensors drawInputs(func::FuncOp func, const DrawOptions &options) {
  Tensors inputs;
  for (Type type : func.getArgumentTypes()) {
    inputs.push_back(
        randomTensor(cast<RankedTensorType>(type), options.seed + inputs.size(), options.intBound));
    for (int64_t &value : inputs.back().ints)
      if (!inputs.back().type.getElementType().isInteger(1))
        value += options.intLow;
    for (double &value : inputs.back().floats)
      value *= options.scale;
    roundToType(inputs.back());
  }
  if (failed(sortBuckets(func, inputs)))
    func.emitError("its indices can't be sorted");
  return inputs;
}

LogicalResult compareResults(exec::KernelOp kernel, func::FuncOp func, const Tensors &inputs,
                             const std::vector<Buffer> &results, double tolerance) {
  FailureOr<Tensors> rounded = evaluate(func, inputs);
  FailureOr<Tensors> exact = evaluate(func, inputs, Numerics::Double);
  if (failed(rounded) || failed(exact))
    return failure();
  for (auto [i, tensor] : llvm::enumerate(*exact)) {
    overflow(tensor);
    // Where the program's own roundings are magnified, the kernel's are as well.
    double allowed = toleranceOf(tensor.type.getElementType(), tolerance) +
                     4 * maxDifference((*rounded)[i], tensor);
    Tensor given = fromBuffer(results[i], tensor.type);
    double difference = std::min(maxDifference(given, tensor), maxDifference(given, (*rounded)[i]));
    if (!(difference <= allowed))
      return kernel.emitError("result ") << i << " differs by " << difference;
  }
  return success();
}

} // namespace

SmallVector<int64_t> inPlaceOf(exec::KernelOp kernel) {
  SmallVector<int64_t> inPlace(kernel.getYield().getNumOperands(), -1);
  kernel->getParentOp()->walk([&](exec::LaunchOp launch) {
    if (launch.getKernel() == kernel.getSymName())
      inPlace.assign(launch.getInPlace().begin(), launch.getInPlace().end());
  });
  return inPlace;
}

static KernelBuffers buffersOf(func::FuncOp func, const Tensors &inputs) {
  KernelBuffers buffers;
  for (const Tensor &input : inputs)
    buffers.inputs.push_back(toBuffer(input));
  for (Type type : func.getResultTypes())
    buffers.results.emplace_back(
        cast<RankedTensorType>(type).getNumElements() * bytesOf(getElementTypeOrSelf(type)), 0x55);
  return buffers;
}

FailureOr<target::CodeObject> compileAll(target::KernelCompilation &kernels, ModuleOp module) {
  for (auto kernel : module.getOps<exec::KernelOp>())
    if (failed(kernels.add(kernel)))
      return failure();
  if (failed(kernels.close()))
    return failure();
  llvm::Expected<target::CodeObject> code = kernels.finish();
  if (!code)
    return module.emitError() << llvm::toString(code.takeError());
  return std::move(*code);
}

KernelBuffers drawBuffers(exec::KernelOp kernel, const DrawOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  func::FuncOp func = asFunction(kernel, *module);
  return buffersOf(func, drawInputs(func, options));
}

FailureOr<std::vector<Buffer>> checkKernel(exec::KernelOp kernel, KernelRunner &runner,
                                           const DrawOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  func::FuncOp func = asFunction(kernel, *module);
  Tensors inputs = drawInputs(func, options);
  KernelBuffers buffers = buffersOf(func, inputs);
  SmallVector<int64_t> apart(buffers.results.size(), -1);
  if (failed(runner.run(kernel, buffers, apart)))
    return failure();
  std::vector<Buffer> whole = buffers.results;
  if (options.compare && failed(compareResults(kernel, func, inputs, whole, options.tolerance)))
    return failure();
  buffers = buffersOf(func, inputs);
  if (failed(runner.run(kernel, buffers, inPlaceOf(kernel))))
    return failure();
  if (buffers.results != whole)
    return kernel.emitError("gives other bits over its operands");
  return whole;
}

} // namespace dtc::test
