// Devices, contexts and the texts of errors.
#include "Emulator/Device/Settings.h"
#include "Emulator/Driver/Context.h"

#include <array>
#include <cstdio>
#include <cstring>

namespace dtc::emulator {

namespace {

std::atomic<bool> isInitialized{false};
thread_local Device *current = nullptr;

struct ErrorText {
  cuda::CUresult code;
  const char *name;
  const char *text;
};

#define ERROR_TEXT(name, text)                                                                     \
  ErrorText { cuda::name, #name, text }
constexpr ErrorText errorTexts[] = {
    ERROR_TEXT(CUDA_SUCCESS, "no error"),
    ERROR_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR_TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU,
               "no kernel image is available for execution on the device"),
    ERROR_TEXT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR_TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    ERROR_TEXT(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR_TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR_TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               "operation not permitted when stream is capturing"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
               "dependency created on uncaptured work in another stream"),
    ERROR_TEXT(CUDA_ERROR_CAPTURED_EVENT,
               "operation not permitted on an event last recorded in a capturing stream"),
    ERROR_TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef ERROR_TEXT

const ErrorText *findText(cuda::CUresult code) {
  for (const ErrorText &entry : errorTexts)
    if (entry.code == code)
      return &entry;
  return nullptr;
}

int attributeOf(cuda::CUdevice_attribute attribute) {
  using Limits = DeviceLimits;
  switch (attribute) {
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return Limits::threadsPerBlock;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    return Limits::blockX;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return Limits::blockY;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return Limits::blockZ;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return Limits::gridX;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    return Limits::gridY;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return Limits::gridZ;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return Limits::sharedPerBlock;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return Limits::sharedPerBlockOptIn;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return 228 * 1024;
  case cuda::CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return 32;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    return 65536;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    return 65536;
  case cuda::CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return 1980000;
  case cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return Limits::multiprocessors;
  case cuda::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    return 2619000;
  case cuda::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
    return 5120;
  case cuda::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    return 50 << 20;
  case cuda::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return 2048;
  case cuda::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    return 1;
  case cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return 9;
  case cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return 0;
  }
  throw Fault(cuda::CUDA_ERROR_INVALID_VALUE,
              "unknown device attribute " + std::to_string(static_cast<unsigned>(attribute)));
}

} // namespace

void requireInitialized() {
  if (!isInitialized)
    throw Fault(cuda::CUDA_ERROR_NOT_INITIALIZED, "cuInit wasn't called");
}

Device &deviceAt(int ordinal) {
  requireInitialized();
  if (ordinal < 0 || ordinal >= settings().devices)
    throw Fault(cuda::CUDA_ERROR_INVALID_DEVICE, "there is no device " + std::to_string(ordinal));
  static std::mutex mutex;
  // Never destroyed: programs may end with work under way.
  static auto *devices = new std::vector<std::unique_ptr<Device>>(settings().devices);
  std::lock_guard<std::mutex> lock(mutex);
  if (!(*devices)[ordinal])
    (*devices)[ordinal] = std::make_unique<Device>(ordinal, settings().memory);
  return *(*devices)[ordinal];
}

Device &currentDevice() {
  requireInitialized();
  if (!current)
    throw Fault(cuda::CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
  return *current;
}

void report(const Fault &fault, const char *function) {
  if (fault.isReported || fault.code == cuda::CUDA_ERROR_NOT_READY ||
      fault.code == cuda::CUDA_ERROR_NO_BINARY_FOR_GPU)
    return;
  std::fprintf(stderr, "emulated GPU: %s: %s\n", function, fault.what());
}

} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

CUresult cuInit(unsigned flags) {
  return enter("cuInit", [&] {
    if (flags != 0)
      throw Fault(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    isInitialized = true;
  });
}

CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  const ErrorText *entry = findText(error);
  *text = entry ? entry->name : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const ErrorText *entry = findText(error);
  *text = entry ? entry->text : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
  return enter("cuDeviceGetCount", [&] {
    requireInitialized();
    *count = settings().devices;
  });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return enter("cuDeviceGet", [&] { *device = deviceAt(ordinal).ordinal(); });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return enter("cuDeviceGetName", [&] {
    deviceAt(device);
    std::snprintf(name, length, "dtc emulated GPU");
  });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return enter("cuDeviceGetAttribute", [&] {
    deviceAt(device);
    *value = attributeOf(attribute);
  });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return enter("cuDeviceTotalMem", [&] { *bytes = deviceAt(device).memory().capacity(); });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return enter("cuDevicePrimaryCtxRetain", [&] {
    Device &own = deviceAt(device);
    own.retainContext();
    *context = reinterpret_cast<CUcontext>(&own);
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter("cuDevicePrimaryCtxRelease", [&] { deviceAt(device).releaseContext(); });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return enter("cuCtxSetCurrent", [&] {
    requireInitialized();
    for (int i = 0; context && i < settings().devices; ++i)
      if (reinterpret_cast<CUcontext>(&deviceAt(i)) == context) {
        current = &deviceAt(i);
        return;
      }
    if (context)
      throw Fault(CUDA_ERROR_INVALID_CONTEXT, "the handle is no context");
    current = nullptr;
  });
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  return enter("cuCtxGetCurrent", [&] {
    requireInitialized();
    *context = reinterpret_cast<CUcontext>(current);
  });
}

} // namespace dtc::cuda
