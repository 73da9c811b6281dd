// A scheduled module as the program that the ranks of a role execute.
#pragma once

#include "dtc-rt/Program_generated.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <vector>

namespace dtc::lower {

/// A program, and the world ranks that run it, by their positions on its mesh.
struct RoleProgram {
  std::unique_ptr<rt::fbs::ProgramT> program;
  std::vector<int32_t> ranks;
};

/// The program of a module after dtc-plan-memory. Its ranks are those of `exec.ranks`; without
/// the attribute, the ranks from 0 on. Fails, with diagnostics, for what a program can't express.
mlir::FailureOr<RoleProgram> buildProgram(mlir::ModuleOp module);

} // namespace dtc::lower
