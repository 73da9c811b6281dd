#include "dtc-rt/CommandLine.h"

#include <cstdlib>
#include <unistd.h>

int main(int argc, char **argv) {
  // libgomp reads its settings before main: threads that wait must block, not spin.
  if (!std::getenv("OMP_WAIT_POLICY")) {
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    ::execv("/proc/self/exe", argv);
  }
  return dtc::rt::runCommand(argc, argv);
}
