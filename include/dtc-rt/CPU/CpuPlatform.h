// Processors as devices: ranks are threads of this process, memory is the
// process's own, kernels are functions of a shared object.
//
// A rank with one queue computes on its own thread, as it issues. Where there are
// more, each has a thread, so that no queue waits for another unless told to.
#pragma once

#include "dtc-rt/Device.h"

namespace dtc::rt {

std::unique_ptr<Platform> createCpuPlatform();

} // namespace dtc::rt
