// The platforms of this dtc-run, by the name of the target that artifacts are compiled for.
#pragma once

#include "dtc-rt/Device.h"
#include "dtc-rt/Program/Manifest.h"

#include <memory>
#include <string>

namespace dtc::rt {

/// Exit code 4 where no platform has the artifact's target.
Status checkTarget(const Manifest &manifest);

/// The platform of the artifact's target, without the artifact's code, for so many ranks of this
/// process. Exit code 4 where this machine can't run what the artifact was compiled for.
Result<std::unique_ptr<Platform>> openPlatform(const Manifest &manifest, int64_t ranksHere);

} // namespace dtc::rt
