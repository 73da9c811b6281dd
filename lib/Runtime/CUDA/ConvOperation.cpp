// Convolutions by cuDNN.
#include "CudaOperations.h"
#include "CudnnDescriptor.h"

#include <algorithm>
#include <array>
#include <optional>

namespace dtc::rt::cuda {
namespace {

using Descriptors = std::vector<std::unique_ptr<Descriptor>>;

std::optional<cudnnDataType_t> typeOf(fbs::DType dtype) {
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
  for (TensorLayout *tensor : {&call.input, &call.weight, &call.output}) {
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

/// Whether an engine computes what the program says, and the same bits every time.
bool isFaithful(const std::vector<cudnnBackendNumericalNote_t> &notes, cudnnDataType_t type) {
  bool isWide = type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE;
  return std::ranges::none_of(notes, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           note == CUDNN_NUMERICAL_NOTE_FFT || (isWide && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

class ConvOperation : public Operation {
public:
  ConvOperation(CudaQueue &queue, Convolutions &library, const ConvSpec &spec)
      : queue(queue), cudnn(library.calls()), context(library.handle()),
        call(withTwoDimensions(spec.call)), workspaceBytes(workspaceIn(spec.scratchBytes)) {}

  Status prepare();
  Status issue(std::span<const Address> addresses) override;

private:
  /// A plan, and the descriptors that it was made of.
  struct Plan {
    Descriptors parts;
    std::unique_ptr<Descriptor> plan; ///< null where there is none yet
  };
  static constexpr int64_t kWide = 16, kTensors = 3;
  static constexpr size_t kMostEngines = 128;

  /// A plan for operands that begin at multiples of kWide bytes, or of an element.
  Status choose(bool isWide);
  Result<Descriptor *> describeOperation(Descriptors &parts, bool isWide);
  Status findPlan(Plan &plan, const Descriptor &graph, cudnnBackendHeurMode_t mode);
  /// Keeps the configuration's plan where it is faithful and the workspace is large enough.
  Status tryEngine(Plan &plan, const Descriptor &configuration);
  Status execute(std::span<const Address> addresses, const Descriptor &plan);

  CudaQueue &queue;
  const Cudnn &cudnn;
  cudnnHandle_t context;
  ConvCall call;
  uint64_t workspaceBytes;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Plan plans[2]; ///< by whether operands are wide
};

Status ConvOperation::prepare() {
  size_t spatial = call.strides.size();
  auto input = typeOf(call.input.dtype), output = typeOf(call.output.dtype);
  if (spatial < 2 || spatial > 3 || !input || !output || !typeOf(call.weight.dtype))
    return refused("cuDNN has no convolution of these shapes and element types");
  type = call.kind == fbs::ConvKind::InputGrad ? *output : *input;
  return choose(/*isWide=*/true);
}

Result<Descriptor *> ConvOperation::describeOperation(Descriptors &parts, bool isWide) {
  auto add = [&](cudnnBackendDescriptorType_t kind) -> Descriptor & {
    return *parts.emplace_back(std::make_unique<Descriptor>(cudnn, kind));
  };
  int64_t id = 0;
  for (const TensorLayout *tensor : {&call.input, &call.weight, &call.output}) {
    int64_t alignment = isWide ? kWide : sizeOf(static_cast<DType>(tensor->dtype));
    DTC_CUDA_TRY(add(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                     .set(CUDNN_ATTR_TENSOR_DATA_TYPE, *typeOf(tensor->dtype))
                     .set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor->shape)
                     .set(CUDNN_ATTR_TENSOR_STRIDES, tensor->strides)
                     .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
                     .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id++)
                     .finish());
  }
  bool isDouble = type == CUDNN_DATA_DOUBLE;
  Descriptor &window = add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
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
  Descriptor &operation = add(names.type);
  operation.set(names.window, window)
      .set(names.input, *parts[0])
      .set(names.weight, *parts[1])
      .set(names.output, *parts[2]);
  DTC_CUDA_TRY(isDouble ? operation.set(names.alpha, 1.0).set(names.beta, 0.0).finish()
                        : operation.set(names.alpha, 1.0F).set(names.beta, 0.0F).finish());
  return &operation;
}

Status ConvOperation::choose(bool isWide) {
  Plan &plan = plans[isWide];
  Result<Descriptor *> operation = describeOperation(plan.parts, isWide);
  if (!operation)
    return operation.status();
  Descriptor &graph = *plan.parts.emplace_back(
      std::make_unique<Descriptor>(cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  DTC_CUDA_TRY(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, **operation)
                   .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, context)
                   .finish());
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    DTC_CUDA_TRY(findPlan(plan, graph, mode));
    if (plan.plan)
      return Status::ok();
  }
  return {ExitCode::NoFit, "cuDNN has no such convolution for " + queue.gpu.name() + " within " +
                               std::to_string(workspaceBytes) + " bytes of workspace"};
}

Status ConvOperation::findPlan(Plan &plan, const Descriptor &graph, cudnnBackendHeurMode_t mode) {
  Descriptor &heuristic = *plan.parts.emplace_back(
      std::make_unique<Descriptor>(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  Status asked = heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                     .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                     .finish();
  if (asked.code() == ExitCode::NoFit)
    return Status::ok(); // no engine in this mode
  DTC_CUDA_TRY(std::move(asked));
  Descriptors configurations;
  for (size_t i = 0; i < kMostEngines; ++i)
    configurations.push_back(
        std::make_unique<Descriptor>(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  Result<int64_t> count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configurations);
  if (!count)
    return count.status();
  for (int64_t i = 0; i < *count && !plan.plan; ++i) {
    DTC_CUDA_TRY(tryEngine(plan, *configurations[i]));
    if (plan.plan)
      plan.parts.push_back(std::move(configurations[i]));
  }
  return Status::ok();
}

Status ConvOperation::tryEngine(Plan &plan, const Descriptor &configuration) {
  Descriptors engine;
  engine.push_back(std::make_unique<Descriptor>(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  Result<int64_t> engines = configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!engines)
    return engines.status();
  auto notes = engine[0]->getNotes();
  if (!notes)
    return notes.status();
  if (!isFaithful(*notes, type))
    return Status::ok();
  auto made = std::make_unique<Descriptor>(cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Status finished = made->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
                        .set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, context)
                        .finish();
  if (finished.code() == ExitCode::NoFit)
    return Status::ok(); // the heuristic's engines needn't take the graph
  DTC_CUDA_TRY(std::move(finished));
  Result<int64_t> needed = made->getNumber(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (!needed)
    return needed.status();
  if (static_cast<uint64_t>(*needed) <= workspaceBytes)
    plan.plan = std::move(made);
  return Status::ok();
}

Status ConvOperation::execute(std::span<const Address> addresses, const Descriptor &plan) {
  std::vector<int64_t> ids;
  std::array<void *, kTensors> pointers = {};
  for (int64_t i = 0; i < kTensors; ++i) {
    ids.push_back(i);
    pointers[i] = addresses[i];
  }
  void *workspace = workspaceBytes ? alignWorkspace(addresses[kTensors]) : nullptr;
  Descriptor pack(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  DTC_CUDA_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
                   .setPointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
                   .setPointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&workspace, 1})
                   .finish());
  DTC_CUDA_TRY(DTC_CUDA_CALL(cudnn, cudnnSetStream, context, queue.stream));
  return DTC_CUDA_CALL(cudnn, cudnnBackendExecute, context, plan.handle(), pack.handle());
}

Status ConvOperation::issue(std::span<const Address> addresses) {
  uint64_t bits = 0;
  for (Address address : addresses.first(kTensors))
    bits |= pointerOf(address);
  bool isWide = bits % kWide == 0;
  if (!plans[isWide].plan)
    if (Status status = choose(isWide); !status.isOk())
      return queue.note(std::move(status));
  return queue.note(execute(addresses, *plans[isWide].plan));
}

} // namespace

MadeOperation makeConv(CudaQueue &queue, const ConvSpec &spec, Convolutions &convolutions) {
  DTC_CUDA_TRY(convolutions.open());
  auto operation = std::make_unique<ConvOperation>(queue, convolutions, spec);
  DTC_CUDA_TRY(operation->prepare());
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace dtc::rt::cuda
