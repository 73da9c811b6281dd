#include "dtc/Target/LibraryRecords.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace fbs = dtc::rt::fbs;

namespace dtc::target {
namespace {

using Tensor = std::unique_ptr<fbs::TensorT>;

Tensor denseTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto tensor = std::make_unique<fbs::TensorT>();
  tensor->dtype = dtypeOf(type.getElementType()).value_or(fbs::DType::F64);
  tensor->shape.assign(type.getShape().begin(), type.getShape().end());
  tensor->strides.resize(tensor->shape.size());
  int64_t stride = 1;
  for (size_t dim = tensor->shape.size(); dim-- > 0; stride *= tensor->shape[dim])
    tensor->strides[dim] = stride;
  return tensor;
}

/// [batch..., rows, columns]; a batch dimension that repeats has the size 1.
Tensor matrix(Value value, ArrayRef<int64_t> batch, int64_t rows, int64_t columns,
              ArrayRef<int64_t> strides) {
  Tensor tensor = denseTensor(value);
  tensor->shape.assign(batch.begin(), batch.end());
  tensor->shape.insert(tensor->shape.end(), {rows, columns});
  tensor->strides.assign(strides.begin(), strides.end());
  for (size_t dim = 0; dim < batch.size(); ++dim) {
    if (strides[dim] != 0)
      continue;
    tensor->shape[dim] = 1;
    tensor->strides[dim] = 1;
    for (size_t inner = dim + 1; inner < tensor->shape.size(); ++inner)
      tensor->strides[dim] = std::max(tensor->strides[dim],
                                      tensor->shape[inner] * tensor->strides[inner]);
  }
  return tensor;
}

template <typename Op> fbs::ConvT windowOf(Op op) {
  fbs::ConvT record;
  auto copy = [](ArrayRef<int64_t> from) { return std::vector<int64_t>(from.begin(), from.end()); };
  record.strides = copy(op.getStrides());
  record.pad_low = copy(op.getPadLow());
  record.pad_high = copy(op.getPadHigh());
  record.dilations = copy(op.getDilations());
  record.groups = op.getGroups();
  return record;
}

} // namespace

std::optional<fbs::DType> dtypeOf(Type type) {
  using fbs::DType;
  if (type.isF32())
    return DType::F32;
  if (type.isF64())
    return DType::F64;
  if (type.isBF16())
    return DType::BF16;
  if (type.isF16())
    return DType::F16;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return std::nullopt;
  switch (integer.getWidth()) {
  case 64:
    return DType::I64;
  case 32:
    return DType::I32;
  case 16:
    return DType::I16;
  case 8:
    return integer.isUnsigned() ? DType::U8 : DType::I8;
  case 1:
    return DType::Bool;
  default:
    return std::nullopt;
  }
}

bool isConv(Operation *op) {
  return isa<graph::ConvOp, graph::ConvInputGradOp, graph::ConvWeightGradOp,
             exec::ConvWeightGradOp>(op);
}

bool isAttention(Operation *op) {
  return isa<graph::AttentionOp, graph::AttentionGradOp, graph::AttentionPartGradOp>(op);
}

bool isLibraryCall(Operation *op) {
  return isConv(op) || isa<exec::MatmulOp, exec::AttentionOp>(op);
}

static fbs::Epilogue epilogueOf(exec::Epilogue epilogue) {
  switch (epilogue) {
  case exec::Epilogue::Bias:
    return fbs::Epilogue::Bias;
  case exec::Epilogue::Gelu:
    return fbs::Epilogue::Gelu;
  case exec::Epilogue::BiasGelu:
    return fbs::Epilogue::BiasGelu;
  case exec::Epilogue::GeluGrad:
    return fbs::Epilogue::GeluGrad;
  case exec::Epilogue::SumLhs:
    return fbs::Epilogue::SumA;
  case exec::Epilogue::SumRhs:
    return fbs::Epilogue::SumB;
  }
  llvm_unreachable("all epilogues handled");
}

fbs::MatmulT matmulRecord(exec::MatmulOp op) {
  int64_t m = op.getMnk()[0], n = op.getMnk()[1], k = op.getMnk()[2];
  fbs::MatmulT record;
  record.a = matrix(op.getLhs(), op.getBatch(), m, k, op.getLhsStrides());
  record.b = matrix(op.getRhs(), op.getBatch(), k, n, op.getRhsStrides());
  record.c = matrix(op.getResult(), op.getBatch(), m, n, op.getResultStrides());
  if (op.getEpilogue())
    record.epilogue = epilogueOf(*op.getEpilogue());
  return record;
}

fbs::ConvT convRecord(Operation *op) {
  fbs::ConvT record;
  auto fill = [&](fbs::ConvKind kind, Value input, Value weight, Value output) {
    record.kind = kind;
    record.input = denseTensor(input);
    record.weight = denseTensor(weight);
    record.output = denseTensor(output);
  };
  if (auto conv = dyn_cast<graph::ConvOp>(op)) {
    record = windowOf(conv);
    fill(fbs::ConvKind::Forward, conv.getInput(), conv.getWeight(), conv.getResult());
  } else if (auto inputGrad = dyn_cast<graph::ConvInputGradOp>(op)) {
    record = windowOf(inputGrad);
    fill(fbs::ConvKind::InputGrad, inputGrad.getResult(), inputGrad.getWeight(),
         inputGrad.getGrad());
  } else {
    llvm::TypeSwitch<Operation *>(op).Case<graph::ConvWeightGradOp, exec::ConvWeightGradOp>(
        [&](auto weightGrad) {
          record = windowOf(weightGrad);
          fill(fbs::ConvKind::WeightGrad, weightGrad.getInput(), weightGrad.getResult(),
               weightGrad.getGrad());
        });
  }
  return record;
}

SmallVector<size_t> attentionTensors(exec::AttentionOp op) {
  SmallVector<size_t> tensors;
  const size_t bias = op.numInputsBeforeBias();
  for (size_t i = 0; i < op.getPlaces().size(); ++i)
    if (i != bias || !op.hasBias())
      tensors.push_back(i);
  if (op.hasBias())
    tensors.push_back(bias);
  return tensors;
}

fbs::AttentionT attentionRecord(exec::AttentionOp op) {
  fbs::AttentionT record;
  record.kind = op.getBackward() ? fbs::AttentionKind::Backward : fbs::AttentionKind::Forward;
  record.scale = op.getScale().convertToDouble();
  record.causal = op.getCausal();
  record.window = op.getWindow().value_or(0);
  for (size_t i : attentionTensors(op)) {
    Tensor tensor = denseTensor(op.valueOf(i));
    exec::PlaceAttr place = op.placeOf(i);
    tensor->shape = place.getShape().vec();
    tensor->strides = place.getStrides().vec();
    record.tensors.push_back(std::move(tensor));
  }
  return record;
}

} // namespace dtc::target
