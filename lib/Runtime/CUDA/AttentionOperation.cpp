// Attention by cuDNN, forward and backward, each as one operation.
#include "CudaOperations.h"
#include "CudnnPlan.h"

#include <array>
#include <limits>

namespace dtc::rt::cuda {
namespace {

/// The first version whose operations of attention take a mask of their scores.
constexpr size_t kLeastVersion = 92100;
constexpr int64_t kAlignment = 16;

/// Ids behind those of the call's tensors: scores before and behind the mask, and numbers of the
/// host.
enum Id : int64_t { kScores = 16, kMasked, kScale, kFill, kKeys, kQueries };
constexpr std::array kHostIds = {kScale, kFill, kKeys, kQueries};

/// What the operation of a kind is called, and its attributes; tensors as in the call.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  std::vector<cudnnBackendAttributeName_t> tensors;
  cudnnBackendAttributeName_t scale, mask, maskInput, maskOutput;
};

OperationNames namesOf(fbs::AttentionKind kind) {
  if (kind == fbs::AttentionKind::Forward)
    return {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
            {CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
             CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
             CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC},
            CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
            CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
            CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
            CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID};
  return {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
          {CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC,
           CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC,
           CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC,
           CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
           CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC},
          CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC,
          CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH,
          CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID,
          CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID};
}

/// cuDNN has heads before the sequence, and statistics of one column.
TensorLayout layoutForCudnn(TensorLayout layout) {
  if (layout.shape.size() == 3) {
    layout.shape.push_back(1);
    layout.strides.push_back(1);
    return layout;
  }
  std::swap(layout.shape[1], layout.shape[2]);
  std::swap(layout.strides[1], layout.strides[2]);
  return layout;
}

class AttentionOperation : public Operation {
public:
  AttentionOperation(CudaQueue &queue, Networks &library, const AttentionSpec &spec)
      : queue(queue), call(spec.call), workspaceBytes(workspaceIn(spec.scratchBytes)),
        plan(library.calls(), library.handle()), scale(static_cast<float>(call.scale)),
        queries(static_cast<int32_t>(call.tensors[0].shape[1])),
        keys(static_cast<int32_t>(call.tensors[1].shape[1])) {}

  Status prepare();
  Status issue(std::span<const Address> addresses) override;

private:
  /// A graph of one operation: of the scores, those up to the diagonal from the end.
  Result<Descriptor *> describeMask();
  Result<Descriptor *> describeOperation();
  Status execute(std::span<const Address> addresses);

  CudaQueue &queue;
  AttentionCall call;
  uint64_t workspaceBytes;
  CudnnPlan plan;
  float scale, fill = -std::numeric_limits<float>::infinity();
  int32_t queries, keys;
};

Result<Descriptor *> AttentionOperation::describeMask() {
  const Dims &query = call.tensors[0].shape;
  Dims shape = {query[0], query[2], queries, keys};
  Result<Descriptor *> scores = plan.addVirtual(kScores, CUDNN_DATA_FLOAT, shape),
                       masked = plan.addVirtual(kMasked, CUDNN_DATA_FLOAT, shape),
                       other = plan.addHostNumber(kFill, CUDNN_DATA_FLOAT, shape.size());
  for (Result<Descriptor *> *made : {&scores, &masked, &other})
    if (!*made)
      return made->status();
  Descriptor &mask = plan.add(CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR);
  mask.set(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC, **scores)
      .set(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC, **other)
      .set(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC, **masked)
      .set(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, CUDNN_POINTWISE_CMP_GE);
  if (keys != queries) {
    Result<Descriptor *> ofKeys = plan.addHostNumber(kKeys, CUDNN_DATA_INT32, shape.size()),
                         ofQueries = plan.addHostNumber(kQueries, CUDNN_DATA_INT32, shape.size());
    for (Result<Descriptor *> *made : {&ofKeys, &ofQueries})
      if (!*made)
        return made->status();
    mask.set(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC, **ofKeys)
        .set(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC, **ofQueries);
  }
  DTC_CUDA_TRY(mask.finish());
  Descriptor &graph = plan.add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  DTC_CUDA_TRY(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, mask).finish());
  return &graph;
}

Result<Descriptor *> AttentionOperation::describeOperation() {
  OperationNames names = namesOf(call.kind);
  std::vector<Descriptor *> tensors;
  for (const TensorLayout &tensor : call.tensors) {
    Result<Descriptor *> made =
        plan.addTensor(static_cast<int64_t>(tensors.size()), layoutForCudnn(tensor), kAlignment);
    if (!made)
      return made.status();
    tensors.push_back(*made);
  }
  Result<Descriptor *> factor = plan.addHostNumber(kScale, CUDNN_DATA_FLOAT, 4);
  if (!factor)
    return factor.status();
  Descriptor *mask = nullptr;
  if (call.causal) {
    Result<Descriptor *> made = describeMask();
    if (!made)
      return made.status();
    mask = *made;
  }
  Descriptor &operation = plan.add(names.type);
  for (size_t i = 0; i < tensors.size(); ++i)
    operation.set(names.tensors[i], *tensors[i]);
  operation.set(names.scale, **factor);
  if (mask)
    operation.set(names.mask, *mask)
        .set(names.maskInput, int64_t(kScores))
        .set(names.maskOutput, int64_t(kMasked));
  DTC_CUDA_TRY(operation.finish());
  return &operation;
}

Status AttentionOperation::prepare() {
  for (const TensorLayout &tensor : call.tensors)
    if (!cudnnTypeOf(tensor.dtype))
      return refused("cuDNN has no attention of these element types");
  Result<Descriptor *> operation = describeOperation();
  Status made = operation
                    ? plan.make(**operation, *cudnnTypeOf(call.tensors[0].dtype), workspaceBytes)
                    : operation.status();
  if (made.code() == ExitCode::NoFit)
    return {ExitCode::NoFit, "cuDNN has no such attention for " + queue.gpu.name() + " within " +
                                 std::to_string(workspaceBytes) + " bytes of workspace"};
  return made;
}

Status AttentionOperation::execute(std::span<const Address> addresses) {
  std::vector<int64_t> ids;
  std::vector<void *> pointers;
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    if (pointerOf(addresses[i]) % kAlignment != 0)
      return failed("a tensor of attention isn't aligned to 16 bytes");
    ids.push_back(static_cast<int64_t>(i));
    pointers.push_back(addresses[i]);
  }
  void *numbers[] = {&scale, &fill, &keys, &queries};
  size_t used = !call.causal ? 1 : keys == queries ? 2 : kHostIds.size();
  for (size_t i = 0; i < used; ++i) {
    ids.push_back(kHostIds[i]);
    pointers.push_back(numbers[i]);
  }
  void *workspace = workspaceBytes ? alignWorkspace(addresses[call.tensors.size()]) : nullptr;
  return plan.execute(ids, pointers, workspace, queue.stream);
}

Status AttentionOperation::issue(std::span<const Address> addresses) {
  return queue.note(execute(addresses));
}

} // namespace

MadeOperation makeAttention(CudaQueue &queue, const AttentionSpec &spec, Networks &networks) {
  DTC_CUDA_TRY(networks.open());
  if (size_t version = networks.calls().cudnnGetVersion(); version < kLeastVersion)
    return Status(ExitCode::NoFit,
                  "attention needs cuDNN 9.21 or newer, got: " + std::to_string(version / 10000) +
                      "." + std::to_string(version / 100 % 100) +
                      "; pip install --upgrade nvidia-cudnn-cu13");
  auto operation = std::make_unique<AttentionOperation>(queue, networks, spec);
  DTC_CUDA_TRY(operation->prepare());
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace dtc::rt::cuda
