// GPUs, true or emulated (../TestGpu.h).
#include "Conformance.h"

#include "../TestGpu.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace {

/// DTC_TEST_PTX of the environment counts first: on another machine the sources lie elsewhere.
std::string readKernels() {
  const char *given = std::getenv("DTC_TEST_PTX");
  std::ostringstream text;
  text << std::ifstream(given ? given : DTC_TEST_PTX).rdbuf();
  return text.str();
}

dtc::rt::conformance::RegisterTarget cuda({"CUDA", dtc::rt::createCudaPlatform, "kernels.ptx",
                                           readKernels, dtc::rt::test::whyNoGpus,
                                           /*hasConvolutions=*/true, /*hasAttention=*/true,
                                           /*hasEpilogues=*/true,
                                           /*dropsIssuedWork=*/false});

} // namespace
