// What the kernels of a program move.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::test {

/// Bytes that one launch reads and writes, each tensor once. Rows that a kernel adds to those of a
/// table in its place are read and written there.
double bytesMoved(exec::LaunchOp launch, exec::KernelOp kernel);

} // namespace dtc::test
