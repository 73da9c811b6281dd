#include "dtc/Driver/Driver.h"

#include "dtc-io/SuddenEnd.h"

#include <cerrno>
#include <cstdlib>
#include <mimalloc.h>
#include <string_view>
#include <unistd.h>

/// mimalloc knows no std::new_handler: what has no memory for `new` would abort without a word.
static void onAllocationError(int code, void *) {
  if (code == ENOMEM)
    dtc::io::endSuddenly(dtc::rt::ExitCode::Failed, "", "out of memory");
}

int main(int argc, char **argv) {
  mi_option_disable(mi_option_show_errors);
  mi_register_error(onAllocationError, nullptr);
  // What is measured must wait as dtc-run's threads do; libgomp reads this before main.
  if (argc > 1 && std::string_view(argv[1]) == "calibrate" && !std::getenv("OMP_WAIT_POLICY")) {
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    ::execv("/proc/self/exe", argv);
  }
  return dtc::driver::run(argc, argv);
}
