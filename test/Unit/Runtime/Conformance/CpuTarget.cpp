#include "Conformance.h"

#include "dtc-rt/CPU/CpuPlatform.h"

#include <fstream>
#include <sstream>

namespace {

std::string readKernels() {
  std::ifstream file(DTC_TEST_KERNELS, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

dtc::rt::conformance::RegisterTarget cpu({"CPU", dtc::rt::createCpuPlatform, "kernels.so",
                                          readKernels});

} // namespace
