// --verify: the ranks of a plan against one rank, by the interpreter.
//
// Either the step itself, or a twin of it with small dimensions (dtc/Twin/Twin.h). Without the flag
// an artifact's plan is verified on its twin where that takes a few seconds. With it the program
// that is verified is also formed into kernels and library calls, which are compared as well.
#pragma once

#include "Phases.h"

#include "dtc/Interpreter/Step.h"
#include "dtc/Pipelines/Pipelines.h"

namespace dtc::driver {

class Verification {
public:
  /// Before `planned` is partitioned.
  static Outcome<Verification> prepare(const Options &options, Planned &planned,
                                       const pipelines::PartitionPipeline &asked);
  /// After it was. What was found, or why nothing was; empty: it wasn't asked for.
  Outcome<std::string> finish(mlir::ModuleOp partitioned);

private:
  Outcome<std::string> compare(mlir::ModuleOp local, bool isOfKernels = false) const;
  Outcome<std::string> compareKernels(mlir::ModuleOp partitioned,
                                      const std::string &verified) const;
  Outcome<std::string> unproven(const std::string &why) const;

  mlir::OwningOpRef<mlir::ModuleOp> global; ///< null: nothing is compared
  mlir::OwningOpRef<mlir::ModuleOp> local;  ///< of a twin
  bool isAsked = false;                     ///< else it is tried
  std::string mesh;                         ///< of a twin
  std::string reason;                       ///< why nothing is
  interpreter::StepOptions step;
};

} // namespace dtc::driver
