#include "Allocator.h"

#include "dtc-io/SuddenEnd.h"

#include <cerrno>
#include <mimalloc.h>

/// mimalloc knows no std::new_handler: what has no memory for `new` would abort without a word.
static void onAllocationError(int code, void *) {
  if (code == ENOMEM)
    dtc::io::endSuddenly(dtc::ErrorCategory::Failed, "", "out of memory");
}

void setUpAllocator() {
  mi_option_disable(mi_option_show_errors);
  mi_register_error(onAllocationError, nullptr);
}
