#include "CudnnPlan.h"

#include "dtc-rt/Program/DType.h"

#include <algorithm>

namespace dtc::rt::cuda {
namespace {

constexpr size_t kMostEngines = 128;

} // namespace

/// Whether an engine computes what the program says, and, as far as its notes tell, the same bits
/// every time. That attention's backward pass on Hopper adds by atomics, none of them says. On
/// operands of fp32, tensor cores compute in TF32.
bool CudnnPlan::isFaithful(const std::vector<cudnnBackendNumericalNote_t> &notes,
                           const Limits &limits) {
  bool isExact =
      limits.type == CUDNN_DATA_DOUBLE || (limits.type == CUDNN_DATA_FLOAT && !limits.tf32);
  return std::ranges::none_of(notes, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           note == CUDNN_NUMERICAL_NOTE_FFT ||
           (isExact && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

Dims stridesOf(const Dims &shape) {
  Dims strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

std::optional<cudnnDataType_t> cudnnTypeOf(fbs::DType dtype) {
  switch (dtype) {
  case fbs::DType::F32:
    return CUDNN_DATA_FLOAT;
  case fbs::DType::F64:
    return CUDNN_DATA_DOUBLE;
  case fbs::DType::BF16:
    return CUDNN_DATA_BFLOAT16;
  case fbs::DType::F16:
    return CUDNN_DATA_HALF;
  default:
    return std::nullopt;
  }
}

Descriptor &CudnnPlan::add(cudnnBackendDescriptorType_t kind) {
  return *parts.emplace_back(std::make_unique<Descriptor>(*cudnn, kind));
}

Result<Descriptor *> CudnnPlan::addTensor(int64_t id, const StridedTensor &strided,
                                          int64_t alignment) {
  auto size = static_cast<int64_t>(sizeOf(static_cast<DType>(strided.dtype)));
  Descriptor &tensor = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  DTC_CUDA_TRY(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, *cudnnTypeOf(strided.dtype))
                   .set(CUDNN_ATTR_TENSOR_DIMENSIONS, strided.shape)
                   .set(CUDNN_ATTR_TENSOR_STRIDES, strided.strides)
                   .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment ? alignment : size)
                   .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
                   .finish());
  return &tensor;
}

Result<Descriptor *> CudnnPlan::addHostNumber(int64_t id, cudnnDataType_t type, size_t rank) {
  Dims ones(rank, 1);
  Descriptor &tensor = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  DTC_CUDA_TRY(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
                   .set(CUDNN_ATTR_TENSOR_DIMENSIONS, ones)
                   .set(CUDNN_ATTR_TENSOR_STRIDES, ones)
                   .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t(sizeof(float)))
                   .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
                   .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true)
                   .finish());
  return &tensor;
}

Result<Descriptor *> CudnnPlan::addVirtual(int64_t id, cudnnDataType_t type, const Dims &shape,
                                           const Dims &strides) {
  Descriptor &tensor = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  DTC_CUDA_TRY(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
                   .set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
                   .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
                   .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t(16))
                   .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
                   .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true)
                   .finish());
  return &tensor;
}

Status CudnnPlan::make(const std::vector<Descriptor *> &operations, cudnnDataType_t type,
                       uint64_t workspaceBytes, bool tf32) {
  Descriptor &graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  DTC_CUDA_TRY(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
                   .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, context)
                   .finish());
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    DTC_CUDA_TRY(findEngine(graph, mode, {type, workspaceBytes, tf32}));
    if (plan)
      return Status::ok();
  }
  return {ErrorCategory::NoFit, "no engine of cuDNN fits"};
}

Status CudnnPlan::findEngine(const Descriptor &graph, cudnnBackendHeurMode_t mode,
                             const Limits &limits) {
  Descriptor &heuristic = add(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Status asked = heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                     .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                     .finish();
  if (asked.category() == ErrorCategory::NoFit)
    return Status::ok(); // no engine in this mode
  DTC_CUDA_TRY(std::move(asked));
  std::vector<std::unique_ptr<Descriptor>> configurations;
  for (size_t i = 0; i < kMostEngines; ++i)
    configurations.push_back(
        std::make_unique<Descriptor>(*cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  Result<int64_t> count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configurations);
  if (!count)
    return count.status();
  for (int64_t i = 0; i < *count && !plan; ++i) {
    DTC_CUDA_TRY(tryEngine(*configurations[i], limits));
    if (plan)
      parts.push_back(std::move(configurations[i]));
  }
  return Status::ok();
}

Status CudnnPlan::tryEngine(const Descriptor &configuration, const Limits &limits) {
  std::vector<std::unique_ptr<Descriptor>> engine;
  engine.push_back(std::make_unique<Descriptor>(*cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  Result<int64_t> engines = configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!engines)
    return engines.status();
  auto notes = engine[0]->getNotes();
  if (!notes)
    return notes.status();
  if (!isFaithful(*notes, limits))
    return Status::ok();
  auto made = std::make_unique<Descriptor>(*cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Status finished = made->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
                        .set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, context)
                        .finish();
  if (finished.category() == ErrorCategory::NoFit)
    return Status::ok(); // the heuristic's engines needn't take the graph
  DTC_CUDA_TRY(std::move(finished));
  Result<int64_t> needed = made->getNumber(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (!needed)
    return needed.status();
  if (static_cast<uint64_t>(*needed) <= limits.workspaceBytes)
    plan = std::move(made);
  return Status::ok();
}

Status CudnnPlan::execute(const std::vector<int64_t> &ids, std::span<void *const> pointers,
                          void *workspace, CUstream stream) const {
  Descriptor pack(*cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  DTC_CUDA_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
                   .setPointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
                   .setPointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&workspace, 1})
                   .finish());
  DTC_CUDA_TRY(DTC_CUDA_CALL(*cudnn, cudnnSetStream, context, stream));
  return DTC_CUDA_CALL(*cudnn, cudnnBackendExecute, context, plan->handle(), pack.handle());
}

} // namespace dtc::rt::cuda
