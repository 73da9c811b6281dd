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

std::unique_ptr<dtc::rt::Platform> create() {
  return dtc::rt::createCpuPlatform(dtc::rt::CollectiveMoment::Thread);
}

dtc::rt::conformance::RegisterTarget cpu({"CPU", create, "kernels.so", readKernels});

} // namespace
