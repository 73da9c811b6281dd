// The devices of the process, the context of a thread, and the frame around every entry point.
#pragma once

#include "Emulator/Device/CallLog.h"
#include "Emulator/Device/Capture.h"
#include "Emulator/Device/Device.h"
#include "Emulator/Driver/Handles.h"

#include <optional>

namespace dtc::emulator {

struct Event {
  static constexpr const char *kWhat = "event";
  bool hasTiming;
  std::optional<Mark> mark;
  std::optional<CaptureMark> captured;
};

/// The device behind an ordinal, made when it is first asked for.
Device &deviceAt(int ordinal);

/// The device of this thread's current context.
Device &currentDevice();

/// The stream behind a handle, which may be null; it isn't part of a broken device.
Stream &streamOf(cuda::CUstream handle);

/// Refuses a call before cuInit.
void requireInitialized();

/// Prints a fault once, where a caller wouldn't expect its code.
void report(const Fault &fault, const char *function);

/// Runs an entry point. Returns the code of its fault, or 0, which is a success in each library.
template <typename Body> int codeOf(const char *function, Body &&body) {
  try {
    body();
    return 0;
  } catch (const Fault &fault) {
    report(fault, function);
    return fault.code;
  }
}

template <typename Body> cuda::CUresult enter(const char *function, Body &&body) {
  return static_cast<cuda::CUresult>(codeOf(function, [&] {
    noteCall(function);
    body();
  }));
}

} // namespace dtc::emulator

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/DriverFunctions.def"
} // namespace dtc::cuda
