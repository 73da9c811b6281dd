// From a planned step to the programs of pipeline ranks.
//
// A plan's stages are in the IR as `dist.stage` on ops and `dist.devices` on the mesh. The step is
// cut in two moves, before partitioning and after it. A model of three ops on two stages, whose
// second weight is the first one's transpose (tied):
//
//   @loss_and_grads
//     %h = dtc.contract %x, %w         stage 0       %dh = dtc.contract %dy, %w    stage 1
//     %a = tanh %h                     stage 0       %w1 = dtc.contract %dy, %a    stage 1
//     %y = dtc.contract %a, %w         stage 1       %da, %w0 = ... %dh ...        stage 0
//     %loss = ...                      stage 1       return %loss, sum(%w1, %w0)
//
// cutStages makes a module for each rank of the pipeline. In it is a function for each of the
// rank's stages, with the ops of both directions in one. A value that another stage reads leaves as
// an outbox. It arrives as an inbox of the same name, in the sharding in which it is made. Stages
// in between pass it on. Ops without a stage are cloned where they are read.
//
//   module @rank0  @stage(%x, %w, inbox %dh)                      -> outbox %a, gradient %w0
//   module @rank1  @stage(%w, target, count, inbox %a)            -> loss, gradient %w1, outbox %dh
//
// Each stage adds up its own terms of a tied weight's gradient. @update then has the weight on both
// ranks. They sum their parts (dist.stage_sum) and make the same update of equal copies. A rank
// with several such stages has a gradient for each (gradientOfChunk), and sums them in the order of
// stages (Schedule/SumRounds.h). The step
// vector follows. Loss, count, elements of gradients that aren't finite and the squared norm of
// each stage's gradients are summed over all ranks. So all clip alike. A weight counts for the norm
// in the first stage that has it.
//
// Then each module is partitioned. Forward and backward ops of a stage are still in one function.
// So a tensor that was gathered for the forward pass is there for the backward pass, as without a
// pipeline. splitPasses takes the function apart. What a later pass reads becomes kept:
//
//   @forward(%x, %w) -> outbox %a, kept %a                          F of the schedule
//   @backward(%x, %w, kept %a, inbox %dh) -> gradient %w0           B
//
// or @input_grad and @weight_grad, for schedules whose backward pass is two calls: what gradients
// of data depend on is the first.
//
// Stages may have meshes of their own. The planned module then has the first mesh. Inside is a
// module for each further one (@group1, ...), with the same step as that mesh has it. A mesh names
// the devices of its own stages, and none for others. What crosses to another mesh is sent in
// pieces of shards (lib/Stages/MeshTransfer.h), into which it is cut once functions are local.
//
// Where nothing is trained, @forward is cut likewise. Its stages are functions of the forward pass,
// nothing has to be split, and a rank returns the outputs that its stages make.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace dtc::stages {

/// Replaces the functions of a planned module by a module for each rank of the pipeline, named
/// @rank0, @rank1, ... A module whose mesh has no stages stays as it is. Refused: a gradient that
/// a later stage needs.
mlir::LogicalResult cutStages(mlir::ModuleOp module);

/// The modules of the pipeline's ranks in their order; the module itself where it wasn't cut.
llvm::SmallVector<mlir::ModuleOp> rankModules(mlir::ModuleOp module);

/// Cuts what partitioned functions send to another mesh into pieces, and joins what they receive.
void divideMessages(mlir::ModuleOp rank);

/// Splits the partitioned stages of a rank's module into passes.
mlir::LogicalResult splitPasses(mlir::ModuleOp rank, bool splitBackward);

} // namespace dtc::stages
