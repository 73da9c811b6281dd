#include "Allocator.h"

#include "dtc/Driver/Driver.h"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

int main(int argc, char **argv) {
  setUpAllocator();
  // What is measured must wait as dtc-run's threads do; libgomp reads this before main.
  if (argc > 1 && std::string_view(argv[1]) == "calibrate" && !std::getenv("OMP_WAIT_POLICY")) {
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    ::execv("/proc/self/exe", argv);
  }
  return dtc::driver::run(argc, argv);
}
