// A scheduled module as the program that a rank executes.
#pragma once

#include "dtc-rt/Program_generated.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace dtc::lower {

/// The program of a module after dtc-plan-memory. It is the same for every rank
/// of the mesh. Fails, with diagnostics, for what a program can't express.
mlir::FailureOr<std::unique_ptr<rt::fbs::ProgramT>> buildProgram(mlir::ModuleOp module);

} // namespace dtc::lower
