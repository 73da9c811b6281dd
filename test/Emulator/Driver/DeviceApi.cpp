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
  const char *name, *text;
};

#define ERROR_TEXT(name, text)                                                                     \
  ErrorText { cuda::name, #name, text }
constexpr ErrorText errorTexts[] = {
    ERROR_TEXT(CUDA_SUCCESS, "no error"),
    ERROR_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU,
               "no kernel image is available for execution on the device"),
    ERROR_TEXT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
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
};
#undef ERROR_TEXT

using TextOf = const char *ErrorText::*;

cuda::CUresult giveText(cuda::CUresult error, TextOf text, const char **result) {
  const auto *entry = std::ranges::find(errorTexts, error, &ErrorText::code);
  bool isKnown = entry != std::end(errorTexts);
  *result = isKnown ? entry->*text : nullptr;
  return isKnown ? cuda::CUDA_SUCCESS : cuda::CUDA_ERROR_INVALID_VALUE;
}

int attributeOf(cuda::CUdevice_attribute attribute) {
  switch (attribute) {
  case cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return DeviceLimits::multiprocessors;
  case cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return 9;
  case cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return 0;
  default:
    throw Fault(cuda::CUDA_ERROR_INVALID_VALUE, "the emulator doesn't tell the device's attribute ",
                attribute);
  }
}

} // namespace

void requireInitialized() {
  require(isInitialized, cuda::CUDA_ERROR_NOT_INITIALIZED, "cuInit wasn't called");
}

Device &deviceAt(int ordinal) {
  requireInitialized();
  require(ordinal >= 0 && ordinal < settings().devices, cuda::CUDA_ERROR_INVALID_DEVICE,
          "there is no device ", ordinal);
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
  require(current, cuda::CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
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
  return enter(__func__, [&] {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    isInitialized = true;
  });
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  return giveText(error, &ErrorText::name, text);
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  return giveText(error, &ErrorText::text, text);
}

CUresult cuDeviceGetCount(int *count) {
  return enter(__func__, [&] {
    requireInitialized();
    *count = settings().devices;
  });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return enter(__func__, [&] { *device = deviceAt(ordinal).ordinal(); });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return enter(__func__, [&] {
    deviceAt(device);
    std::snprintf(name, length, "dtc emulated GPU");
  });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return enter(__func__, [&] {
    deviceAt(device);
    *value = attributeOf(attribute);
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return enter(__func__, [&] {
    Device &own = deviceAt(device);
    own.retainContext();
    *context = reinterpret_cast<CUcontext>(&own);
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter(__func__, [&] { deviceAt(device).releaseContext(); });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return enter(__func__, [&] {
    requireInitialized();
    for (int i = 0; context && i < settings().devices; ++i)
      if (reinterpret_cast<CUcontext>(&deviceAt(i)) == context) {
        current = &deviceAt(i);
        return;
      }
    require(!context, CUDA_ERROR_INVALID_CONTEXT, "the handle is no context");
    current = nullptr;
  });
}

} // namespace dtc::cuda
