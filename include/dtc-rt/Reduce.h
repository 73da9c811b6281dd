// Reduction of buffers in this process's memory.
#pragma once

#include "dtc-rt/Communicator.h"

namespace dtc::rt {

/// True for the element types that can be reduced.
bool isReducible(DType dtype);

/// For elements [begin, begin + count) of every source: reduces them in the order of `sources`. The
/// result is written at the same place of every target. A target may be one of the sources.
void reduceInto(Reduction kind, DType dtype, std::span<const char *const> sources,
                std::span<char *const> targets, int64_t begin, int64_t count);

} // namespace dtc::rt
