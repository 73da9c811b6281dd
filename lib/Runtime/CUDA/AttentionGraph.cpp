#include "AttentionGraph.h"

#include "CudaOperations.h"

#include <algorithm>

namespace dtc::rt::cuda {
namespace {

constexpr int64_t kAlignment = 16;

/// Ids behind those of the call's tensors.
enum Id : int64_t {
  kScale = 16,
  kFill,
  kKeys,
  kQueries,
  kOne,
  kRowSum,
  kQueryGradSum,
  kWindow,
  kWindowFill,
  kFirstFree
};

/// cuDNN has heads before the sequence, and statistics of one column.
StridedTensor forCudnn(StridedTensor tensor) {
  if (tensor.shape.size() == 3) {
    tensor.shape.push_back(1);
    tensor.strides.push_back(1);
    return tensor;
  }
  std::swap(tensor.shape[1], tensor.shape[2]);
  std::swap(tensor.strides[1], tensor.strides[2]);
  return tensor;
}

/// The tensors of a call, in their order. A bias comes behind them.
enum Tensor : size_t {
  kQuery,
  kKey,
  kValue,
  kOutput,
  kStats,
  kOutputGrad,
  kQueryGrad,
  kKeyGrad,
  kValueGrad
};

/// cuDNN reads and writes 16 bytes of a head at a time. Statistics have no heads.
bool beginHeadsAligned(const StridedTensor &tensor) {
  constexpr int64_t kMultiple = 8;
  auto isMultiple = [](int64_t stride) { return stride > 0 && stride % kMultiple == 0; };
  return tensor.strides.back() == 1 &&
         std::all_of(tensor.strides.begin(), tensor.strides.end() - 1, isMultiple);
}

/// Backward kernels before cuDNN 9.26 read statistics as if they were dense, whatever their strides
/// say.
bool isDense(const StridedTensor &tensor) {
  const Dims dense = stridesOf(tensor.shape);
  for (size_t dim = 0; dim < dense.size(); ++dim)
    if (tensor.shape[dim] != 1 && tensor.strides[dim] != dense[dim])
      return false;
  return true;
}

size_t numTensorsOf(fbs::AttentionKind kind) {
  return kind == fbs::AttentionKind::Forward ? kStats + 1 : kValueGrad + 1;
}

} // namespace

AttentionGraph::AttentionGraph(CudnnPlan &plan, const AttentionCall &given)
    : plan(plan), call(given), scale(static_cast<float>(given.scale)), nextId(kFirstFree) {
  const Dims &query = call.tensors[kQuery].shape, &key = call.tensors[kKey].shape;
  sizes = {query[0], query[2], key[2], query[1], key[1], query[3], call.tensors[kValue].shape[3]};
  scores = {sizes.batch, sizes.heads, sizes.queries, sizes.keys};
  rows = {sizes.batch, sizes.heads, sizes.queries, 1};
  queries = static_cast<int32_t>(sizes.queries);
  keys = static_cast<int32_t>(sizes.keys);
  window = static_cast<float>(call.window - sizes.keys + sizes.queries);
}

// Descriptions.

Descriptor *AttentionGraph::keep(Result<Descriptor *> made) {
  if (made)
    return *made;
  if (status.isOk())
    status = made.status();
  return nullptr;
}

void AttentionGraph::add(Descriptor &operation) {
  status = operation.finish();
  operations.push_back(&operation);
}

Descriptor *AttentionGraph::operand(size_t number, bool isTransposed) {
  StridedTensor tensor = forCudnn(call.tensors[number]);
  if (isTransposed) {
    std::swap(tensor.shape[2], tensor.shape[3]);
    std::swap(tensor.strides[2], tensor.strides[3]);
  }
  return keep(plan.addTensor(static_cast<int64_t>(number), tensor, kAlignment));
}

Descriptor *AttentionGraph::number(int64_t id, cudnnDataType_t ofType, void *value) {
  numbers.emplace_back(id, value);
  return keep(plan.addHostNumber(id, ofType, scores.size()));
}

Descriptor *AttentionGraph::between(cudnnDataType_t ofType, const Dims &shape, Dims strides) {
  if (strides.empty())
    strides = stridesOf(shape);
  return keep(plan.addVirtual(nextId++, ofType, shape, strides));
}

Descriptor *AttentionGraph::sum(int64_t id, const Dims &shape) {
  sums.emplace_back(id, sumBytes);
  StridedTensor tensor{fbs::DType::F32, shape, stridesOf(shape)};
  uint64_t bytes = tensor.strides[0] * shape[0] * sizeof(float);
  sumBytes += (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  return keep(plan.addTensor(id, tensor, kAlignment));
}

Descriptor *AttentionGraph::pointwise(cudnnPointwiseMode_t mode, std::vector<Descriptor *> inputs,
                                      Descriptor *output, cudnnDataType_t precision, int64_t axis) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  if (!status.isOk())
    return nullptr;
  Descriptor &kind = plan.add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  if (axis >= 0)
    kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  if (status = kind.finish(); !status.isOk())
    return nullptr;
  Descriptor &operation = plan.add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *output);
  for (size_t i = 0; i < inputs.size(); ++i)
    operation.set(kInputs[i], *inputs[i]);
  add(operation);
  return output;
}

Descriptor *AttentionGraph::multiply(Descriptor *a, Descriptor *b, Descriptor *output) {
  if (!status.isOk())
    return nullptr;
  Descriptor &kind = plan.add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  if (status = kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finish(); !status.isOk())
    return nullptr;
  add(plan.add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
          .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind)
          .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a)
          .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b)
          .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *output));
  return output;
}

Descriptor *AttentionGraph::reduce(cudnnReduceTensorOp_t op, Descriptor *input,
                                   Descriptor *output) {
  if (!status.isOk())
    return nullptr;
  Descriptor &kind = plan.add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  status = kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, op)
               .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
               .finish();
  if (!status.isOk())
    return nullptr;
  add(plan.add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
          .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind)
          .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *input)
          .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *output));
  return output;
}

Descriptor *AttentionGraph::reshape(Descriptor *input, Descriptor *output) {
  if (!status.isOk())
    return nullptr;
  add(plan.add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
          .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *input)
          .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *output));
  return output;
}

// The graph.

Descriptor *AttentionGraph::turned(Descriptor *matrix) {
  Dims strides = stridesOf(scores);
  std::swap(strides[2], strides[3]);
  return reshape(matrix,
                 between(type, {sizes.batch, sizes.heads, sizes.keys, sizes.queries}, strides));
}

Descriptor *AttentionGraph::biasedScores(Descriptor *query, Descriptor *key, Descriptor *factor) {
  Descriptor *product = multiply(query, key, between(CUDNN_DATA_FLOAT, scores));
  product = pointwise(CUDNN_POINTWISE_MUL, {product, factor}, between(CUDNN_DATA_FLOAT, scores));
  size_t number = numTensorsOf(call.kind);
  if (call.tensors.size() == number)
    return product;
  Descriptor *bias =
      keep(plan.addTensor(static_cast<int64_t>(number), call.tensors[number], kAlignment));
  return pointwise(CUDNN_POINTWISE_ADD, {product, bias}, between(CUDNN_DATA_FLOAT, scores));
}

Descriptor *AttentionGraph::index(Descriptor *given, int64_t axis) {
  return pointwise(CUDNN_POINTWISE_GEN_INDEX, {given}, between(CUDNN_DATA_INT32, scores),
                   CUDNN_DATA_FLOAT, axis);
}

Descriptor *AttentionGraph::where(cudnnPointwiseMode_t comparison, Descriptor *a, Descriptor *b,
                                  Descriptor *given, int64_t fillId) {
  Descriptor *isSeen =
      pointwise(comparison, {a, b}, between(CUDNN_DATA_BOOLEAN, scores), CUDNN_DATA_BOOLEAN);
  return pointwise(CUDNN_POINTWISE_BINARY_SELECT,
                   {given, number(fillId, CUDNN_DATA_FLOAT, &fill), isSeen},
                   between(CUDNN_DATA_FLOAT, scores));
}

/// Engines know a second mask, as NVIDIA's frontend describes it: with a number of fp32 that also
/// says where the diagonal ends.
Descriptor *AttentionGraph::windowMask(Descriptor *given) {
  if (call.window == 0 || call.window >= sizes.keys)
    return given;
  Descriptor *row = index(given, 2), *column = index(given, 3);
  column = pointwise(CUDNN_POINTWISE_ADD, {column, number(kWindow, CUDNN_DATA_FLOAT, &window)},
                     between(CUDNN_DATA_FLOAT, scores));
  return where(CUDNN_POINTWISE_CMP_GT, column, row, given, kWindowFill);
}

Descriptor *AttentionGraph::mask(Descriptor *given) {
  if (!call.causal)
    return given;
  Descriptor *row = index(given, 2), *column = index(given, 3);
  auto shift = [&](cudnnPointwiseMode_t mode, int64_t id, int32_t &by) {
    row = pointwise(mode, {row, number(id, CUDNN_DATA_INT32, &by)},
                    between(CUDNN_DATA_INT32, scores), CUDNN_DATA_INT32);
  };
  if (keys != queries) {
    shift(CUDNN_POINTWISE_ADD, kKeys, keys);
    shift(CUDNN_POINTWISE_SUB, kQueries, queries);
  }
  return windowMask(where(CUDNN_POINTWISE_CMP_GE, row, column, given, kFill));
}

void AttentionGraph::describeForward() {
  auto score = [&] { return between(CUDNN_DATA_FLOAT, scores); };
  auto row = [&] { return between(CUDNN_DATA_FLOAT, rows); };
  Descriptor *s = mask(
      biasedScores(operand(kQuery), operand(kKey, true), number(kScale, CUDNN_DATA_FLOAT, &scale)));
  Descriptor *most = reduce(CUDNN_REDUCE_TENSOR_MAX, s, row());
  s = pointwise(CUDNN_POINTWISE_SUB, {s, most}, score());
  s = pointwise(CUDNN_POINTWISE_EXP, {s}, score());
  Descriptor *total = reduce(CUDNN_REDUCE_TENSOR_ADD, s, row());
  pointwise(CUDNN_POINTWISE_ADD, {most, pointwise(CUDNN_POINTWISE_LOG, {total}, row())},
            operand(kStats));
  s = pointwise(CUDNN_POINTWISE_DIV, {s, total}, between(type, scores));
  multiply(s, operand(kValue), operand(kOutput));
}

void AttentionGraph::keyGradient(Descriptor *matrix, Descriptor *other, size_t gradient,
                                 int64_t width) {
  if (sizes.heads == sizes.keyHeads) {
    multiply(matrix, other, operand(gradient));
    return;
  }
  Descriptor *ofHeads =
      multiply(matrix, other, between(type, {sizes.batch, sizes.heads, sizes.keys, width}));
  reduce(CUDNN_REDUCE_TENSOR_ADD, ofHeads, operand(gradient));
}

void AttentionGraph::describeBackward() {
  auto score = [&] { return between(CUDNN_DATA_FLOAT, scores); };
  Descriptor *query = operand(kQuery), *key = operand(kKey, true), *value = operand(kValue, true),
             *outputGrad = operand(kOutputGrad), *factor = number(kScale, CUDNN_DATA_FLOAT, &scale);
  Dims output = {sizes.batch, sizes.heads, sizes.queries, sizes.valueWidth};
  Descriptor *inner = pointwise(CUDNN_POINTWISE_MUL, {outputGrad, operand(kOutput)},
                                between(CUDNN_DATA_FLOAT, output));
  inner = reduce(CUDNN_REDUCE_TENSOR_ADD, inner, between(CUDNN_DATA_FLOAT, rows));
  inner = pointwise(CUDNN_POINTWISE_MUL, {inner, number(kOne, CUDNN_DATA_FLOAT, &one)},
                    sum(kRowSum, rows));

  Descriptor *p = biasedScores(query, key, factor);
  p = mask(pointwise(CUDNN_POINTWISE_SUB, {p, operand(kStats)}, score()));
  p = pointwise(CUDNN_POINTWISE_EXP, {p}, score());
  keyGradient(turned(p), outputGrad, kValueGrad, sizes.valueWidth);

  Descriptor *ds = multiply(outputGrad, value, score());
  ds = pointwise(CUDNN_POINTWISE_SUB, {ds, inner}, score());
  ds = pointwise(CUDNN_POINTWISE_MUL, {ds, p}, score());
  ds = pointwise(CUDNN_POINTWISE_MUL, {ds, factor}, score());
  keyGradient(turned(ds), query, kKeyGrad, sizes.width);

  StridedTensor rowsOfKeys = forCudnn(call.tensors[kKey]);
  Descriptor *upright = reshape(key, between(type, rowsOfKeys.shape, rowsOfKeys.strides));
  Descriptor *wide = multiply(
      ds, upright, sum(kQueryGradSum, {sizes.batch, sizes.heads, sizes.queries, sizes.width}));
  pointwise(CUDNN_POINTWISE_IDENTITY, {wide}, operand(kQueryGrad));
}

/// All others either gave wrong gradients on true GPUs, and no error, or were never run there.
Status AttentionGraph::checkBias() const {
  const StridedTensor &bias = call.tensors.back();
  if (bias.dtype != call.tensors[kQuery].dtype ||
      bias.shape != Dims{1, sizes.heads, sizes.queries, sizes.keys})
    return refused("cuDNN has no attention with a bias but one of each head, query and key, of the "
                   "operands' type");
  if (call.window > 0)
    return refused("cuDNN has no attention with a bias and a window");
  if (call.causal && sizes.queries != sizes.keys)
    return refused(
        "cuDNN has no attention with a bias and a causal mask of fewer queries than keys");
  return Status::ok();
}

Status AttentionGraph::make(uint64_t workspaceBytes) {
  for (const StridedTensor &tensor : call.tensors)
    if (!cudnnTypeOf(tensor.dtype))
      return refused("cuDNN has no attention of these element types");
  for (size_t i = 0; i < numTensorsOf(call.kind); ++i)
    if (i != kStats && !beginHeadsAligned(call.tensors[i]))
      return refused("cuDNN has no attention whose heads don't begin at 16 bytes");
  if (!isDense(call.tensors[kStats]))
    return refused("cuDNN has no attention whose statistics don't follow each other");
  if (sizes.keys == 1 || (call.causal && sizes.queries == 1))
    return refused("cuDNN has no attention of one key, or of one query and a causal mask");
  if (call.tensors.size() > numTensorsOf(call.kind))
    DTC_CUDA_TRY(checkBias());
  type = *cudnnTypeOf(call.tensors[kQuery].dtype);
  if (call.kind == fbs::AttentionKind::Forward)
    describeForward();
  else
    describeBackward();
  DTC_CUDA_TRY(status);
  if (workspaceBytes < sumBytes)
    return {ErrorCategory::NoFit, "the sums of attention don't fit into its workspace"};
  return plan.make(operations, type, workspaceBytes - sumBytes);
}

Status AttentionGraph::execute(std::span<const Address> addresses, Address workspace,
                               CUstream stream) {
  std::vector<int64_t> ids;
  std::vector<void *> pointers;
  auto give = [&](int64_t id, void *pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    if (pointerOf(addresses[i]) % kAlignment != 0)
      return failed("a tensor of attention isn't aligned to 16 bytes");
    give(static_cast<int64_t>(i), addresses[i]);
  }
  for (auto [id, value] : numbers)
    give(id, value);
  for (auto [id, offset] : sums)
    give(id, workspace + offset);
  return plan.execute(ids, pointers, workspace ? workspace + sumBytes : nullptr, stream);
}

} // namespace dtc::rt::cuda
