#include "Emulator/Cudnn/Descriptors.h"

#include "Emulator/Cudnn/AttentionGraph.h"

#include <algorithm>
#include <set>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

/// A type, and the attributes that have it: one, or all from the first to the last.
struct Rule {
  cudnnBackendAttributeType_t type;
  cudnnBackendAttributeName_t first, last = first;
};

/// What the descriptors of each type have.
const std::map<cudnnBackendDescriptorType_t, std::vector<Rule>> kRules = {
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
     {{CUDNN_TYPE_DATA_TYPE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE},
      {CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE},
      {CUDNN_TYPE_INT64, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS}}},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
     {{CUDNN_TYPE_HEUR_MODE, CUDNN_ATTR_ENGINEHEUR_MODE},
      {CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH}}},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
     {{CUDNN_TYPE_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE},
      {CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG}}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_TYPE_FLOAT, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_TYPE_DOUBLE, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      {CUDNN_TYPE_FLOAT, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_TYPE_DOUBLE, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA}}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
      {CUDNN_TYPE_FLOAT, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
      {CUDNN_TYPE_DOUBLE, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}}},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
     {{CUDNN_TYPE_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE},
      {CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS}}},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
     {{CUDNN_TYPE_DATA_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE},
      {CUDNN_TYPE_INT64, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT},
      {CUDNN_TYPE_INT64, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES},
      {CUDNN_TYPE_INT64, CUDNN_ATTR_TENSOR_UNIQUE_ID},
      {CUDNN_TYPE_BOOLEAN, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_ATTR_TENSOR_IS_BY_VALUE}}},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
     {{CUDNN_TYPE_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MODE},
      {CUDNN_TYPE_DATA_TYPE, CUDNN_ATTR_POINTWISE_MATH_PREC},
      {CUDNN_TYPE_INT64, CUDNN_ATTR_POINTWISE_AXIS}}},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
      {CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC}}},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, {{CUDNN_TYPE_DATA_TYPE, CUDNN_ATTR_MATMUL_COMP_TYPE}}},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
       CUDNN_ATTR_OPERATION_MATMUL_DESC}}},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
     {{CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, CUDNN_ATTR_REDUCTION_OPERATOR},
      {CUDNN_TYPE_DATA_TYPE, CUDNN_ATTR_REDUCTION_COMP_TYPE}}},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
       CUDNN_ATTR_OPERATION_REDUCTION_DESC}}},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
     {{CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
       CUDNN_ATTR_OPERATION_RESHAPE_YDESC}}},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
     {{CUDNN_TYPE_INT64, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS},
      {CUDNN_TYPE_VOID_PTR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS},
      {CUDNN_TYPE_VOID_PTR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE}}},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, {}},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {}},
};

/// Of a convolution: where its attributes begin. They follow each other in this order.
enum ConvolutionAttribute : int { kAlpha, kBeta, kWindow, kWeight, kInput, kOutput };

const std::map<cudnnBackendDescriptorType_t, std::pair<ConvKind, cudnnBackendAttributeName_t>>
    kConvolutions = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         {ConvKind::Forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA}},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         {ConvKind::BackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA}},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         {ConvKind::BackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA}},
};

const std::vector<Engine> kEngines = {
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, true, false},
    {{}, false, true},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, true, false},
    {{}, false, false},
};

unsigned sizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  default: // the enumerations
    return 4;
  }
}

FloatKind kindOf(cudnnDataType_t type) {
  switch (type) {
  case CUDNN_DATA_FLOAT:
    return FloatKind::F32;
  case CUDNN_DATA_DOUBLE:
    return FloatKind::F64;
  case CUDNN_DATA_HALF:
    return FloatKind::F16;
  case CUDNN_DATA_BFLOAT16:
    return FloatKind::BF16;
  default:
    throw Fault(CUDNN_STATUS_NOT_SUPPORTED, "the emulator lacks a type of elements");
  }
}

} // namespace

BackendDescriptor::BackendDescriptor(cudnnBackendDescriptorType_t type) : ownType(type) {
  require(kRules.contains(type), "the emulator lacks descriptors of type ", type);
}

void BackendDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void *elements) {
  require(!isFinal, "attribute ", name, " is set after its descriptor was finalized");
  require(elements && count > 0, "attribute ", name, " has no elements");
  auto allows = [&](const Rule &rule) {
    return name >= rule.first && name <= rule.last && rule.type == type;
  };
  require(std::ranges::any_of(kRules.at(ownType), allows), "attribute ", name, " of type ", type,
          " isn't one of a descriptor ", ownType);
  const auto *first = static_cast<const std::byte *>(elements);
  attributes[name].assign(first, first + count * sizeOf(type));
}

const std::vector<std::byte> &BackendDescriptor::bytesOf(cudnnBackendAttributeName_t name) const {
  auto found = attributes.find(name);
  require(found != attributes.end(), "attribute ", name, " isn't set");
  return found->second;
}

void BackendDescriptor::requireFinal() const {
  if (!isFinal)
    throw Fault(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor isn't finalized");
}

const BackendDescriptor &BackendDescriptor::nested(cudnnBackendAttributeName_t name) const {
  const BackendDescriptor &found = handles<BackendDescriptor>().find(one<void *>(name));
  found.requireFinal();
  return found;
}

double BackendDescriptor::scale(cudnnBackendAttributeName_t name) const {
  return bytesOf(name).size() == sizeof(float) ? one<float>(name) : one<double>(name);
}

CudnnTensor BackendDescriptor::tensor() const {
  require(ownType == CUDNN_BACKEND_TENSOR_DESCRIPTOR, "an operand isn't a tensor");
  auto flag = [&](cudnnBackendAttributeName_t name) {
    return has(name) && one<uint8_t>(name) != 0;
  };
  auto type = one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  CudnnTensor made;
  made.dims = all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  made.strides = all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  made.alignment = one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  made.id = one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  made.isVirtual = flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  made.isOfHost = flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  made.isInteger = (type == CUDNN_DATA_INT32 && (made.isOfHost || made.isVirtual)) ||
                   (type == CUDNN_DATA_BOOLEAN && made.isVirtual);
  if (!made.isInteger)
    made.kind = kindOf(type);
  return made;
}

void BackendDescriptor::finalizeConvolution() {
  auto [kind, first] = kConvolutions.at(ownType);
  auto name = [first = int(first)](ConvolutionAttribute which) {
    return static_cast<cudnnBackendAttributeName_t>(first + which);
  };
  const BackendDescriptor &window = nested(name(kWindow));
  require(window.ownType == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a window isn't a convolution's");
  auto made = std::make_shared<Convolution>();
  made->kind = kind;
  made->input = nested(name(kInput)).tensor();
  made->weight = nested(name(kWeight)).tensor();
  made->output = nested(name(kOutput)).tensor();
  made->strides = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  made->pre = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  made->post = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  made->dilations = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  made->alpha = scale(name(kAlpha));
  made->beta = scale(name(kBeta));
  require(made->beta == 0 || made->kind == ConvKind::BackwardFilter,
          "the emulator adds gradients of weights alone to what was before");
  require(window.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) ==
              CUDNN_CROSS_CORRELATION,
          "the emulator turns no weights");
  require(window.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) ==
              static_cast<int64_t>(made->strides.size()),
          "the window has another number of dimensions than it says");
  made->check();
  operation = std::move(made);
}

void BackendDescriptor::finalizeStep() {
  using enum GraphStep::Kind;
  using Name = cudnnBackendAttributeName_t;
  auto made = std::make_shared<GraphStep>();
  auto take = [&](GraphStep::Kind kind, std::initializer_list<Name> inputs, Name output) {
    made->kind = kind;
    for (Name name : inputs)
      if (has(name) || kind != Pointwise)
        made->inputs.push_back(nested(name).tensor());
    made->output = nested(output).tensor();
  };
  auto isOfFloats = [](const BackendDescriptor &what, Name type) {
    return what.one<cudnnDataType_t>(type) == CUDNN_DATA_FLOAT;
  };
  if (ownType == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    take(Pointwise,
         {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
         CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const BackendDescriptor &what = nested(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    made->mode = what.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    if (made->mode == CUDNN_POINTWISE_GEN_INDEX)
      made->axis = what.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    bool isWhole = made->output.isInteger && made->mode != CUDNN_POINTWISE_GEN_INDEX;
    require(isWhole != isOfFloats(what, CUDNN_ATTR_POINTWISE_MATH_PREC),
            "a pointwise operation computes in a type that doesn't fit its result");
  } else if (ownType == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    take(Product, {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
         CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    require(isOfFloats(nested(CUDNN_ATTR_OPERATION_MATMUL_DESC), CUDNN_ATTR_MATMUL_COMP_TYPE),
            "the emulator multiplies in fp32 alone");
  } else if (ownType == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    take(Reduction, {CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const BackendDescriptor &what = nested(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    made->reduction = what.one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    require(isOfFloats(what, CUDNN_ATTR_REDUCTION_COMP_TYPE), "the emulator reduces in fp32 alone");
  } else {
    take(Reshape, {CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  }
  step = std::move(made);
}

void BackendDescriptor::finalizeGraph() {
  (void)one<void *>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  auto graph = std::make_shared<AttentionGraph>();
  auto operations = all<void *>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (void *handle : operations) {
    const BackendDescriptor &each = handles<BackendDescriptor>().find(handle);
    each.requireFinal();
    if (each.operation) {
      require(operations.size() == 1, "the emulator takes one convolution a graph");
      operation = each.operation;
      return;
    }
    require(each.step != nullptr, "a graph is made of operations");
    graph->steps.push_back(*each.step);
  }
  graph->check();
  operation = std::move(graph);
}

void BackendDescriptor::finalize() {
  require(!isFinal, "a descriptor is finalized twice");
  switch (ownType) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    (void)tensor();
    break;
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    finalizeGraph();
    break;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    finalizeStep();
    break;
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    (void)one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
    operation = nested(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).operation;
    break;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
    (void)one<void *>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    const BackendDescriptor &configuration = nested(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    operation = configuration.operation;
    engineNumber = configuration.engineNumber;
    break;
  }
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: {
    auto ids = all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    require(ids.size() == all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size() &&
                std::set<int64_t>(ids.begin(), ids.end()).size() == ids.size(),
            "a variant pack hasn't one address for each id");
    break;
  }
  default:
    if (kConvolutions.contains(ownType))
      finalizeConvolution();
  }
  isFinal = true;
}

void BackendDescriptor::setEngine(std::shared_ptr<const CudnnOperation> of, int number) {
  operation = std::move(of);
  engineNumber = number;
  isFinal = true;
}

uint64_t Engine::workspaceBytes(const CudnnOperation &operation) const {
  constexpr uint64_t kHuge = uint64_t(1) << 40;
  return needsHugeWorkspace ? kHuge : operation.workspaceBytes();
}

const Engine &engineAt(int number) { return kEngines.at(number); }

std::vector<int> enginesFor(cudnnBackendHeurMode_t mode) {
  switch (mode) {
  case CUDNN_HEUR_MODE_A:
    return {0, 1, 2, 3};
  case CUDNN_HEUR_MODE_FALLBACK:
    return {3};
  }
  throw Fault(CUDNN_STATUS_BAD_PARAM, "unknown mode of the heuristic");
}

} // namespace dtc::emulator
