// Memory of a rank's device that isn't the rank's own.
#pragma once

#include <cstdint>

namespace dtc::rt {

struct DeviceOverhead {
  uint64_t context = 0; ///< of the driver, and of other programs that were there before
  /// Of the library that exchanges data, from before there were communicators until now. What else
  /// was loaded in that time counts, too.
  uint64_t communicators = 0;
};

} // namespace dtc::rt
