// Something that never ends, as DTC_EMULATED_GPU_HANGS asks for it.
//
//   cuGraphLaunch,20   the 20th call of a function of the driver doesn't return
//   kernel,300         the 300th kernel of the process doesn't end
//   ncclCommAbort,1    NCCL's first abort of a communicator doesn't return
#pragma once

namespace dtc::emulator {

/// Something of this name begins. It never returns where that is what hangs.
void hangIfAsked(const char *name);

} // namespace dtc::emulator
