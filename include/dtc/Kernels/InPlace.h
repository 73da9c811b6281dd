// Which operand's buffer a kernel's result may overwrite.
#pragma once

#include "dtc/Kernels/KernelBody.h"

namespace dtc::kernels {

/// For each result of the body an operand for which `fits(operand, result)` holds, or -1; no
/// operand is given twice. What results are to overwrite (exec.kernel's `replaces`) is kept
/// for them. Whoever asks knows when elements are read and written; that their number and size
/// are equal is known here. A kernel that only puts zeros behind its operand may do so in place.
llvm::SmallVector<int64_t> chooseInPlace(const BodyInfo &info,
                                         llvm::function_ref<bool(unsigned, unsigned)> fits);

} // namespace dtc::kernels
