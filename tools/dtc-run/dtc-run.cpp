#include "dtc-rt/CommandLine.h"

#include <cstdlib>
#include <unistd.h>

int main(int argc, char **argv) {
  // Collectives of several communicators may run side by side on a GPU. NCCL, from 2.26 on, then
  // keeps to the order of the program, which all ranks share, so that none waits for another.
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  // libgomp reads its settings before main: threads that wait must block, not spin.
  if (!std::getenv("OMP_WAIT_POLICY")) {
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    ::execv("/proc/self/exe", argv);
  }
  return dtc::rt::runCommand(argc, argv);
}
