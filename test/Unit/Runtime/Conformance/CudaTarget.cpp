// GPUs, true or emulated (../TestGpu.h).
#include "Conformance.h"

#include "../TestGpu.h"

#include <fstream>
#include <sstream>

namespace {

std::string readKernels() {
  std::ostringstream text;
  text << std::ifstream(DTC_TEST_PTX).rdbuf();
  return text.str();
}

dtc::rt::conformance::RegisterTarget cuda({"CUDA", dtc::rt::createCudaPlatform, "kernels.ptx",
                                           readKernels, [] { return dtc::rt::test::whyNoGpus(); },
                                           /*hasConvolutions=*/true, /*dropsIssuedWork=*/false});

} // namespace
