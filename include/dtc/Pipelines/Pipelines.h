// The passes of each phase. The driver runs them, and dtc-opt under the phase's name:
//
//     dtc compile gpt2.onnx ... --emit=plan -o plan.mlir
//     dtc-opt plan.mlir --dtc-pipeline=partition          what --emit=partition prints
//     dtc-opt plan.mlir --dtc-pipeline="partition bucket-bytes=1"
//
//     name        from                       to                                 options of
//     raise       what an importer wrote     @forward in raised ops             RaisePipeline
//     slots       @forward                   mixtures whose rows have slots     SlotsPipeline
//     padding     @forward                   convolutions that pad evenly       PaddingPipeline
//     train       @forward                   @loss_and_grads, @update           TrainOptions
//     partition   the above with shardings   local shapes, collectives          PartitionPipeline
//     schedule    what partition gives       kernels, a list of calls, memory   SchedulePipeline
//
// Importing, planning and lowering are no passes: they read a file, search, and make machine code.
#pragma once

#include "dtc/Partition/Partition.h"
#include "dtc/Target/Target.h"
#include "dtc/Training/Train.h"

#include "mlir/Pass/PassManager.h"

namespace dtc::pipelines {

struct RaisePipeline {
  int64_t batch = 0; ///< samples of one call; 0 keeps the file's
};

/// What plans with several ranks of either axis need: slots of experts, and tokens to share.
struct SlotsPipeline {
  int64_t expertRanks = 1, contextRanks = 1;
  double capacity = 0;     ///< of each expert; 0: the worst case
  bool drops = false;      ///< rows without a slot
  bool each = false;       ///< experts have slots of their own without a capacity, too
  bool tiles = false;      ///< instead, experts have whole tiles of slots
  bool padsTokens = false; ///< that ranks can't share
};

/// For targets whose convolutions pad both ends of a dimension alike.
struct PaddingPipeline {
  bool isEven = false;
};

/// With stages, there is a module for each rank of the pipeline afterwards (Stages/Stages.h).
struct PartitionPipeline {
  partition::PartitionOptions options;
  bool splitBackward = false; ///< gradients of data and of weights are passes of their own
};

struct SchedulePipeline {
  int64_t microbatches = 1;  ///< of a step
  int64_t threads = 1;       ///< of a rank
  std::string kind = "1f1b"; ///< name of the schedule
  int64_t ranks = 1;         ///< of the pipeline
  int64_t chunks = 1;        ///< stages of a rank
  int64_t kept = 0;          ///< microbatches that a rank keeps at most; 0: as the schedule does
  bool trains = true;        ///< otherwise there are forward passes alone
  /// Compiles the kernels while the passes go on; null: they stay IR.
  target::KernelCompilation *compilation = nullptr;
};

void build(mlir::OpPassManager &passes, const RaisePipeline &options);
void build(mlir::OpPassManager &passes, const SlotsPipeline &options);
void build(mlir::OpPassManager &passes, const PaddingPipeline &options);
void build(mlir::OpPassManager &passes, const training::TrainOptions &options);
void build(mlir::OpPassManager &passes, const PartitionPipeline &options);
void build(mlir::OpPassManager &passes, const SchedulePipeline &options);

/// Runs a phase's passes. The module isn't verified after each of them: that would be a tenth of a
/// deep model's compilation.
template <typename Options> mlir::LogicalResult run(mlir::ModuleOp module, const Options &options) {
  mlir::PassManager passes(module.getContext());
  passes.enableVerifier(false);
  build(passes, options);
  return passes.run(module);
}

/// `--dtc-pipeline="NAME OPTION=VALUE..."`, and the passes that the pipelines are made of.
void registerPipelines();

} // namespace dtc::pipelines
