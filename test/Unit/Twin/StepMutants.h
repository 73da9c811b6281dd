// Faults planted into partitioned steps: what a wrong partitioner would make.
//
// Those of calls, buffers and messages' places are planted into programs (../Replay/Mutants.h).
// Here are the others: programs in which each instruction reads what it says, but says the wrong
// thing.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc::twin::test {

struct StepMutant {
  std::string kind, place;
  /// Into the op of this number of a copy of the module, or of one with other dimensions.
  unsigned op = 0;
  std::function<void(mlir::Operation *)> plant;
  /// The op has one of this kind already.
  bool isFurther = false;
};

/// Without constants: how many there are depends on which tensors have the same shape.
std::vector<mlir::Operation *> numberedOps(mlir::ModuleOp module);
/// For people: the op of this number, its function and pipeline rank.
std::string placeOf(mlir::Operation *op, unsigned number);
/// Of each kind at most `most`, spread over all ops.
std::vector<StepMutant> thinned(std::vector<StepMutant> all, size_t most);
/// All that there are.
std::vector<StepMutant> makeStepMutants(mlir::ModuleOp local);
/// Of a program that has been formed into kernels and library calls: all faults in these.
std::vector<StepMutant> makeKernelMutants(mlir::ModuleOp formed);
/// The ops of `to` that are what the op of this number of `from` is. Both modules are made from
/// one, whose places their ops have, with other dimensions or axes. There are several where `to`
/// has more ops of one place, as a ring of four ranks has more than one of two.
std::vector<unsigned> counterparts(mlir::ModuleOp from, unsigned op, mlir::ModuleOp to);
/// A copy of the module with the fault.
mlir::OwningOpRef<mlir::ModuleOp> planted(mlir::ModuleOp local, const StepMutant &mutant);

} // namespace dtc::twin::test
