// The passes of the CPU target.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace dtc::cpu {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Target/CPU/Passes.h.inc"

} // namespace dtc::cpu
