// Processors as devices: ranks are threads of this process, memory is the
// process's own, kernels are functions of a shared object.
//
// A rank that sends no messages computes on its own thread, as it issues. Where it does, each
// queue has a thread, so that no queue waits for another unless told to.
//
// Collectives that have a queue need no thread. Between their start and who waits for them they may
// be carried out at any time: nothing else depends on it. They are carried out
//
//   start    as they are issued: nothing is handed to another thread
//   wait     when their results are waited for
//   thread   on a thread of their own, beside what is computed
//
// Left open, it is by a thread where a rank has a processor that no other of its threads needs.
#pragma once

#include "dtc-rt/Device.h"
#include "dtc-rt/Program/Manifest.h"

#include <optional>

namespace dtc::rt {

/// Exit code 4 when this processor lacks what the artifact was compiled for.
Status checkProcessor(const Manifest &manifest);

enum class CollectiveMoment : uint8_t { Start, Wait, Thread };

/// The platform, once the processor has been checked. DTC_COLLECTIVES names a moment.
Result<std::unique_ptr<Platform>> openCpuPlatform(const Manifest &manifest, int64_t ranksHere);

std::unique_ptr<Platform> createCpuPlatform(std::optional<CollectiveMoment> moment = {});

} // namespace dtc::rt
