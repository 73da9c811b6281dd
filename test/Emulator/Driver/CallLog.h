// Which of the driver's functions are called how often, and one that fails or never returns.
#pragma once

namespace dtc::emulator {

/// Counts the call, for the file of DTC_EMULATED_GPU_CALLS. Throws a fault where the function is
/// that of DTC_EMULATED_GPU_FAILS. Hangs where DTC_EMULATED_GPU_HANGS asks for it.
void noteCall(const char *function);

} // namespace dtc::emulator
