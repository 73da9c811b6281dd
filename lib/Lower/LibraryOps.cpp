#include "LibraryOps.h"

using namespace mlir;

extern "C" {
// libgomp's, which oneDNN uses; its header is not where clang looks.
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
}

namespace dtc::lower {
namespace {

using rt::fbs::ConvKind;

rt::TensorLayout denseLayout(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  rt::TensorLayout layout;
  layout.dtype = dtypeOf(type.getElementType()).value_or(rt::fbs::DType::F64);
  layout.shape.assign(type.getShape().begin(), type.getShape().end());
  layout.strides.resize(layout.shape.size());
  int64_t stride = 1;
  for (size_t dim = layout.shape.size(); dim-- > 0; stride *= layout.shape[dim])
    layout.strides[dim] = stride;
  return layout;
}

/// [batch..., rows, columns]; a batch dimension that repeats has the size 1.
rt::TensorLayout matrixLayout(Value value, ArrayRef<int64_t> batch, int64_t rows, int64_t columns,
                              ArrayRef<int64_t> strides) {
  rt::TensorLayout layout = denseLayout(value);
  layout.shape.assign(batch.begin(), batch.end());
  layout.shape.insert(layout.shape.end(), {rows, columns});
  layout.strides.assign(strides.begin(), strides.end());
  for (size_t dim = 0; dim < batch.size(); ++dim) {
    if (strides[dim] != 0)
      continue;
    layout.shape[dim] = 1;
    layout.strides[dim] = 1;
    for (size_t inner = dim + 1; inner < layout.shape.size(); ++inner)
      layout.strides[dim] = std::max(layout.strides[dim],
                                     layout.shape[inner] * layout.strides[inner]);
  }
  return layout;
}

template <typename Op> void fillWindow(Op op, rt::ConvCall &call) {
  auto copy = [](ArrayRef<int64_t> from) { return rt::Dims(from.begin(), from.end()); };
  call.strides = copy(op.getStrides());
  call.padLow = copy(op.getPadLow());
  call.padHigh = copy(op.getPadHigh());
  call.dilations = copy(op.getDilations());
  call.groups = op.getGroups();
}

uint64_t libraryScratch(Operation *op) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  if (auto matmul = dyn_cast<exec::MatmulOp>(op))
    return rt::scratchBytes(rt::describe(matmulCall(matmul), engine));
  return rt::describe(convCall(op), engine).scratchBytes();
}

/// An attribute that is the same for calls that are: the op's own attributes
/// and its types.
Attribute signatureOf(Operation *op) {
  Builder builder(op->getContext());
  auto function = builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
  return builder.getArrayAttr({builder.getStringAttr(op->getName().getStringRef()),
                               op->getPropertiesAsAttribute(), TypeAttr::get(function)});
}

} // namespace

std::optional<rt::fbs::DType> dtypeOf(Type type) {
  using rt::fbs::DType;
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

rt::MatmulCall matmulCall(exec::MatmulOp op) {
  int64_t m = op.getMnk()[0], n = op.getMnk()[1], k = op.getMnk()[2];
  rt::MatmulCall call;
  call.a = matrixLayout(op.getLhs(), op.getBatch(), m, k, op.getLhsStrides());
  call.b = matrixLayout(op.getRhs(), op.getBatch(), k, n, op.getRhsStrides());
  call.c = matrixLayout(op.getResult(), op.getBatch(), m, n, op.getResultStrides());
  return call;
}

bool isConv(Operation *op) {
  return isa<graph::ConvOp, graph::ConvInputGradOp, graph::ConvWeightGradOp>(op);
}

rt::ConvCall convCall(Operation *op) {
  rt::ConvCall call;
  if (auto conv = dyn_cast<graph::ConvOp>(op)) {
    call.kind = ConvKind::Forward;
    call.input = denseLayout(conv.getInput());
    call.weight = denseLayout(conv.getWeight());
    call.output = denseLayout(conv.getResult());
    fillWindow(conv, call);
  } else if (auto inputGrad = dyn_cast<graph::ConvInputGradOp>(op)) {
    call.kind = ConvKind::InputGrad;
    call.input = denseLayout(inputGrad.getResult());
    call.weight = denseLayout(inputGrad.getWeight());
    call.output = denseLayout(inputGrad.getGrad());
    fillWindow(inputGrad, call);
  } else {
    auto weightGrad = cast<graph::ConvWeightGradOp>(op);
    call.kind = ConvKind::WeightGrad;
    call.input = denseLayout(weightGrad.getInput());
    call.weight = denseLayout(weightGrad.getResult());
    call.output = denseLayout(weightGrad.getGrad());
    fillWindow(weightGrad, call);
  }
  return call;
}

LibraryThreads::LibraryThreads(int64_t threads) : before(omp_get_max_threads()) {
  omp_set_num_threads(static_cast<int>(threads));
}
LibraryThreads::~LibraryThreads() { omp_set_num_threads(before); }

FailureOr<uint64_t> ScratchSizes::bytesOf(Operation *op) {
  if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
    auto kernel = symbols.lookup<exec::KernelOp>(launch.getKernel());
    if (!kernel)
      return op->emitOpError("kernel is not declared: ") << launch.getKernel();
    return kernel.getScratchBytes() * static_cast<uint64_t>(threads);
  }
  if (!isa<exec::MatmulOp>(op) && !isConv(op))
    return uint64_t{0};
  auto [entry, isNew] = known.try_emplace(signatureOf(op), 0);
  if (!isNew)
    return entry->second;
  try {
    return entry->second = libraryScratch(op);
  } catch (const dnnl::error &error) {
    return op->emitOpError("the library can't compute it for these types and shapes: ")
           << error.what();
  }
}

} // namespace dtc::lower
