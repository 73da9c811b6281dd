// What `dtc calibrate --target cuda` writes, by a program that needs no LLVM: scripts/gpu_tests.py
// carries it to machines with GPUs.
#include "Driver/Calibration/GpuCalibration.h"

#include "dtc-io/ExitCodes.h"

#include <cstdio>

int main() {
  auto measured = dtc::driver::measureGpus();
  if (!measured) {
    std::fprintf(stderr, "gpu-calibration: error: %s\n", measured.status().message().c_str());
    return dtc::io::exitCodeOf(measured.status().error().category);
  }
  std::printf("# attention: %.4g TFLOP/s, backward %.4g TFLOP/s\n%s",
              measured->device.attention.forward / 1e12, measured->device.attention.backward / 1e12,
              dtc::plan::toYaml(*measured).c_str());
  return 0;
}
