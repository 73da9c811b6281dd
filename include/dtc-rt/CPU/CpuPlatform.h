// Processors as devices: ranks are threads of this process, memory is the
// process's own, kernels are functions of a shared object.
//
// A rank with one queue computes on its own thread, as it issues. Where there are
// more, each has a thread, so that no queue waits for another unless told to.
#pragma once

#include "dtc-rt/Device.h"
#include "dtc-rt/Manifest.h"

namespace dtc::rt {

/// Exit code 4 when this processor lacks what the artifact was compiled for.
Status checkProcessor(const Manifest &manifest);

/// The platform, once the processor has been checked.
Result<std::unique_ptr<Platform>> openCpuPlatform(const Manifest &manifest, int64_t ranksHere);

std::unique_ptr<Platform> createCpuPlatform();

} // namespace dtc::rt
