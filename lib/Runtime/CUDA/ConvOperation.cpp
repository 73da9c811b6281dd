// Convolutions by cuDNN.
#include "CudaOperations.h"
#include "CudnnPlan.h"

#include <array>

namespace dtc::rt::cuda {
namespace {

/// What the operation of a kind is called, and its attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, window, input, weight, output;
};

OperationNames namesOf(fbs::ConvKind kind) {
  switch (kind) {
  case fbs::ConvKind::InputGrad:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  case fbs::ConvKind::WeightGrad:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  default:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  }
}

/// cuDNN takes two spatial dimensions at least. The first of one alone has the size 1.
ConvCall withTwoDimensions(ConvCall call) {
  if (call.strides.size() != 1)
    return call;
  for (StridedTensor *tensor : {&call.input, &call.weight, &call.output}) {
    int64_t stride = tensor->shape[2] * tensor->strides[2];
    tensor->shape.insert(tensor->shape.begin() + 2, 1);
    tensor->strides.insert(tensor->strides.begin() + 2, stride);
  }
  for (Dims *ones : {&call.strides, &call.dilations})
    ones->insert(ones->begin(), 1);
  for (Dims *zeros : {&call.padLow, &call.padHigh})
    zeros->insert(zeros->begin(), 0);
  return call;
}

class ConvOperation : public Operation {
public:
  ConvOperation(CudaQueue &queue, Networks &library, const ConvSpec &spec)
      : queue(queue), cudnn(library.calls()), context(library.handle()),
        call(withTwoDimensions(spec.call)), workspaceBytes(workspaceIn(spec.scratchBytes)) {}

  Status prepare();
  Status issue(std::span<const Address> addresses) override;

private:
  static constexpr int64_t kWide = 16, kTensors = 3, kWeight = 1, kAddend = 3;

  /// A plan for operands that begin at multiples of kWide bytes, or of an element.
  Status choose(bool isWide);
  Result<Descriptor *> describeOperation(CudnnPlan &plan, bool isWide);
  /// cuDNN adds to what lies in the place of its result.
  Status bringAddend(std::span<const Address> addresses);
  Status execute(std::span<const Address> addresses, const CudnnPlan &plan);

  CudaQueue &queue;
  const Cudnn &cudnn;
  cudnnHandle_t context;
  ConvCall call;
  uint64_t workspaceBytes;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;       ///< of the result
  std::array<std::optional<CudnnPlan>, 2> plans; ///< by isWide
};

Status ConvOperation::prepare() {
  size_t spatial = call.strides.size();
  auto input = cudnnTypeOf(call.input.dtype), output = cudnnTypeOf(call.output.dtype);
  if (spatial < 2 || spatial > 3 || !input || !output || !cudnnTypeOf(call.weight.dtype))
    return refused("cuDNN has no convolution of these shapes and element types");
  type = call.kind == fbs::ConvKind::InputGrad ? *output : *input;
  return choose(/*isWide=*/true);
}

Result<Descriptor *> ConvOperation::describeOperation(CudnnPlan &plan, bool isWide) {
  std::vector<Descriptor *> tensors;
  for (const StridedTensor *tensor : {&call.input, &call.weight, &call.output}) {
    Result<Descriptor *> made =
        plan.addTensor(static_cast<int64_t>(tensors.size()), *tensor, isWide ? kWide : 0);
    if (!made)
      return made.status();
    tensors.push_back(*made);
  }
  const bool isDouble = type == CUDNN_DATA_DOUBLE;
  const double beta = call.hasAddend ? 1 : 0;
  Descriptor &window = plan.add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  DTC_CUDA_TRY(
      window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, isDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
          .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
          .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(call.strides.size()))
          .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, call.strides)
          .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, call.padLow)
          .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, call.padHigh)
          .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, call.dilations)
          .finish());
  OperationNames names = namesOf(call.kind);
  Descriptor &operation = plan.add(names.type);
  operation.set(names.window, window)
      .set(names.input, *tensors[0])
      .set(names.weight, *tensors[1])
      .set(names.output, *tensors[2]);
  DTC_CUDA_TRY(isDouble ? operation.set(names.alpha, 1.0).set(names.beta, beta).finish()
                        : operation.set(names.alpha, 1.0F).set(names.beta, float(beta)).finish());
  return &operation;
}

Status ConvOperation::choose(bool isWide) {
  CudnnPlan plan(cudnn, context);
  Result<Descriptor *> operation = describeOperation(plan, isWide);
  if (!operation)
    return operation.status();
  Status made = plan.make({*operation}, type, workspaceBytes, call.tf32);
  if (made.category() == ErrorCategory::NoFit)
    return {ErrorCategory::NoFit, "cuDNN has no such convolution for " + queue.gpu.name() +
                                      " within " + std::to_string(workspaceBytes) +
                                      " bytes of workspace" +
                                      (call.hasAddend ? ", that adds to what is there" : "")};
  DTC_CUDA_TRY(std::move(made));
  plans[isWide] = std::move(plan);
  return Status::ok();
}

Status ConvOperation::bringAddend(std::span<const Address> addresses) {
  if (!call.hasAddend || addresses[kAddend] == addresses[kWeight])
    return Status::ok();
  uint64_t bytes = sizeOf(static_cast<DType>(call.weight.dtype));
  for (int64_t size : call.weight.shape)
    bytes *= static_cast<uint64_t>(size);
  return DTC_CUDA_CALL(queue.driver, cuMemcpyDtoDAsync_v2, pointerOf(addresses[kWeight]),
                       pointerOf(addresses[kAddend]), bytes, queue.stream);
}

Status ConvOperation::execute(std::span<const Address> addresses, const CudnnPlan &plan) {
  std::vector<int64_t> ids;
  std::array<void *, kTensors> pointers = {};
  for (int64_t i = 0; i < kTensors; ++i) {
    ids.push_back(i);
    pointers[i] = addresses[i];
  }
  DTC_CUDA_TRY(bringAddend(addresses));
  const size_t scratch = call.hasAddend ? kAddend + 1 : kTensors;
  void *workspace = workspaceBytes ? alignWorkspace(addresses[scratch]) : nullptr;
  return plan.execute(ids, pointers, workspace, queue.stream);
}

Status ConvOperation::issue(std::span<const Address> addresses) {
  uint64_t bits = 0;
  for (Address address : addresses.first(kTensors))
    bits |= pointerOf(address);
  bool isWide = bits % kWide == 0;
  if (!plans[isWide])
    if (Status status = choose(isWide); !status.isOk())
      return queue.note(std::move(status));
  return queue.note(execute(addresses, *plans[isWide]));
}

} // namespace

MadeOperation makeConv(CudaQueue &queue, const ConvSpec &spec, Networks &networks) {
  DTC_CUDA_TRY(networks.open());
  auto operation = std::make_unique<ConvOperation>(queue, networks, spec);
  DTC_CUDA_TRY(operation->prepare());
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace dtc::rt::cuda
