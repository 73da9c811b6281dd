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

using dtc::rt::CollectiveMoment;
using dtc::rt::conformance::RegisterTarget;

template <CollectiveMoment moment> std::unique_ptr<dtc::rt::Platform> create() {
  return dtc::rt::createCpuPlatform(moment);
}

RegisterTarget atStart({"CPU", create<CollectiveMoment::Start>, "kernels.so", readKernels});
RegisterTarget atWait({"CPUAtWait", create<CollectiveMoment::Wait>, "kernels.so", readKernels});
RegisterTarget onThread({"CPUOnThread", create<CollectiveMoment::Thread>, "kernels.so",
                         readKernels});

} // namespace
