#include "dtc-io/StandardStreams.h"

#include <fcntl.h>
#include <unistd.h>

namespace dtc::io {

void occupyStandardStreams() {
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) < 0)
      (void)::open("/dev/null", O_RDWR); // the lowest number that is free, which is this one
}

} // namespace dtc::io
