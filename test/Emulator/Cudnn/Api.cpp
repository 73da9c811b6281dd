// The entry points of the emulated cuDNN.
#include "Emulator/Cudnn/Descriptors.h"
#include "Emulator/Driver/Context.h"

#include <algorithm>

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/CudnnFunctions.def"
} // namespace dtc::cuda

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

struct Library {
  static constexpr const char *kWhat = "handle of cuDNN";

  CUstream stream = nullptr;
};

/// Faults of the driver have its codes; here they all mean a bad parameter.
template <typename Body> cudnnStatus_t enterLibrary(const char *function, Body &&body) {
  auto status = static_cast<cudnnStatus_t>(codeOf(function, body));
  bool isStatus = status == CUDNN_STATUS_SUCCESS || status >= CUDNN_STATUS_NOT_INITIALIZED;
  return isStatus ? status : CUDNN_STATUS_BAD_PARAM;
}

/// What is asked of a finished descriptor; fills at most `requested` elements.
struct Answer {
  cudnnBackendAttributeType_t type;
  int64_t requested;
  int64_t *count;
  void *elements;

  template <typename T>
  void give(cudnnBackendAttributeType_t ofType, const std::vector<T> &values) const {
    require(type == ofType, "an attribute is asked for as another type");
    *count = static_cast<int64_t>(values.size());
    std::copy_n(values.begin(), std::min(requested, *count), static_cast<T *>(elements));
  }
  /// Makes engines, or configurations of them, of descriptors that the caller has made.
  void giveEngines(const BackendDescriptor &of, const std::vector<int> &numbers,
                   cudnnBackendDescriptorType_t kind) const {
    require(type == CUDNN_TYPE_BACKEND_DESCRIPTOR, "an attribute is asked for as another type");
    *count = std::min<int64_t>(static_cast<int64_t>(numbers.size()), requested);
    for (int64_t i = 0; i < *count; ++i) {
      BackendDescriptor &filled =
          handles<BackendDescriptor>().find(static_cast<void **>(elements)[i]);
      require(filled.type() == kind, "a descriptor to be filled has another type");
      filled.setEngine(of.operation, numbers[i]);
    }
  }
};

void get(const BackendDescriptor &from, cudnnBackendAttributeName_t name, const Answer &answer) {
  from.requireFinal();
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    return answer.giveEngines(
        from, enginesFor(from.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE)),
        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  case CUDNN_ATTR_ENGINECFG_ENGINE:
    return answer.giveEngines(from, {from.number()}, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    return answer.give(CUDNN_TYPE_NUMERICAL_NOTE, from.engine().notes);
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    return answer.give(CUDNN_TYPE_INT64, std::vector{static_cast<int64_t>(
                                             from.engine().workspaceBytes(*from.operation))});
  default:
    throw Fault(CUDNN_STATUS_NOT_SUPPORTED, "the emulator doesn't tell attribute ", name);
  }
}

/// One number of the host, as it is now.
double numberAt(uint64_t address, const CudnnTensor &tensor) {
  if (tensor.isInteger)
    return *reinterpret_cast<const int32_t *>(address);
  return loadFloat(reinterpret_cast<const std::byte *>(address), tensor.kind);
}

CudnnCall callOf(const BackendDescriptor &plan, const BackendDescriptor &pack) {
  auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = pack.all<uint64_t>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  CudnnCall call;
  for (const CudnnTensor &tensor : plan.operation->tensors()) {
    size_t at = std::ranges::find(ids, tensor.id) - ids.begin();
    require(at < ids.size(), "no address for the tensor ", tensor.id);
    require(pointers[at] % tensor.alignment == 0, "a tensor at ", hex(pointers[at]),
            " isn't aligned to the ", tensor.alignment, " bytes that its plan was made for");
    if (tensor.isOfHost)
      call.hostNumbers[tensor.id] = numberAt(pointers[at], tensor);
    else
      call.addresses[tensor.id] = pointers[at];
  }
  call.workspace = pack.one<uint64_t>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  call.workspaceBytes = plan.engine().workspaceBytes(*plan.operation);
  call.roundsToTF32 = plan.engine().roundsToTF32;
  return call;
}

void execute(Stream &stream, const BackendDescriptor &plan, const BackendDescriptor &pack) {
  plan.requireFinal();
  pack.requireFinal();
  CudnnCall call = callOf(plan, pack);
  require(call.workspaceBytes == 0 || call.workspace, "the plan needs a workspace");
  plan.operation->checkNumbers(call);
  stream.submit({plan.operation->text(),
                 [call, operation = plan.operation, &memory = stream.device().memory()] {
                   return operation->run(call, memory);
                 }});
}

} // namespace
} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  return enterLibrary(__func__, [&] {
    currentDevice();
    *handle = handles<Library>().make<cudnnHandle_t>();
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return enterLibrary(__func__, [&] { handles<Library>().take(handle); });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  return enterLibrary(__func__, [&] {
    streamOf(stream);
    handles<Library>().find(handle).stream = stream;
  });
}

size_t cudnnGetVersion() { return 92801; }

const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
  case CUDNN_STATUS_SUCCESS:
    return "CUDNN_STATUS_SUCCESS";
  case CUDNN_STATUS_BAD_PARAM:
    return "CUDNN_STATUS_BAD_PARAM";
  case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED:
    return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
  case CUDNN_STATUS_NOT_SUPPORTED:
    return "CUDNN_STATUS_NOT_SUPPORTED";
  default:
    return "CUDNN_STATUS_UNKNOWN";
  }
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
  if (bytes > 0)
    *message = 0; // what is wrong was printed
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor) {
  return enterLibrary(__func__, [&] {
    *descriptor = handles<BackendDescriptor>().make<cudnnBackendDescriptor_t>(type);
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return enterLibrary(__func__, [&] { handles<BackendDescriptor>().take(descriptor); });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return enterLibrary(__func__, [&] { handles<BackendDescriptor>().find(descriptor).finalize(); });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *elements) {
  return enterLibrary(__func__, [&] {
    handles<BackendDescriptor>().find(descriptor).set(name, type, count, elements);
  });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t *count, void *elements) {
  return enterLibrary(__func__, [&] {
    require(count && elements, "there is no room for an attribute");
    get(handles<BackendDescriptor>().find(descriptor), name, {type, requested, count, elements});
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return enterLibrary(__func__, [&] {
    execute(streamOf(handles<Library>().find(handle).stream),
            handles<BackendDescriptor>().find(plan), handles<BackendDescriptor>().find(pack));
  });
}

} // namespace dtc::cuda
