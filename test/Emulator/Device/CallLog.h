// Which of the driver's functions are called how often, one that fails, and what never ends.
//
// DTC_EMULATED_GPU_HANGS asks for something that never ends:
//
//   cuGraphLaunch,20   the 20th call of a function of the driver doesn't return
//   kernel,300         the 300th kernel of the process doesn't end
//   ncclCommAbort,1    NCCL's first abort of a communicator doesn't return
#pragma once

#include <string_view>

namespace dtc::emulator {

/// Counts the call, for the file of DTC_EMULATED_GPU_CALLS. Throws a fault where the function is
/// that of DTC_EMULATED_GPU_FAILS. Hangs where that is asked for. Versions have one name.
void noteCall(std::string_view function);

/// Something of this name begins. It never returns where that is what hangs.
void hangIfAsked(std::string_view name);

} // namespace dtc::emulator
