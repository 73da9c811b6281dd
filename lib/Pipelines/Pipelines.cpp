#include "dtc/Pipelines/Pipelines.h"

#include "dtc/Kernels/Passes.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Lower/StepTerms.h"
#include "dtc/Partition/Passes.h"
#include "dtc/Raise/Passes.h"
#include "dtc/Stages/Passes.h"
#include "dtc/Stages/Stages.h"
#include "dtc/Training/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dtc::pipelines {
namespace {

/// Runs passes on the module of each rank of a pipeline, or on the whole module where it isn't
/// cut. Some may move and start what the rank's step computes, but not change it.
class OnRanks : public PassWrapper<OnRanks, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OnRanks)

  using Build = std::function<void(OpPassManager &passes, int64_t rank, bool isCut)>;
  explicit OnRanks(Build build, bool keepsStep = false)
      : build(std::move(build)), keepsStep(keepsStep) {}

  StringRef getName() const override { return "OnRanks"; }

  void getDependentDialects(DialectRegistry &registry) const override {
    OpPassManager passes(ModuleOp::getOperationName());
    build(passes, 0, true);
    passes.getDependentDialects(registry);
  }

  void runOnOperation() override {
    for (auto [index, rank] : llvm::enumerate(stages::rankModules(getOperation()))) {
      OpPassManager passes(ModuleOp::getOperationName());
      build(passes, static_cast<int64_t>(index), rank != getOperation());
      const lower::StepTerms before = keepsStep ? lower::StepTerms(rank) : lower::StepTerms();
      if (failed(runPipeline(passes, rank)) || failed(checkStep(rank, before)))
        return signalPassFailure();
    }
  }

private:
  LogicalResult checkStep(ModuleOp rank, const lower::StepTerms &before) const {
    const std::string changed = keepsStep ? lower::StepTerms(rank).differenceFrom(before) : "";
    return changed.empty()
               ? success()
               : rank.emitError("internal error: passes changed how the step makes ") << changed;
  }

  Build build;
  bool keepsStep;
};

} // namespace

void build(OpPassManager &passes, const RaisePipeline &options) {
  raise::RebatchOptions rebatch;
  rebatch.batch = options.batch;
  raise::buildRaisePipeline(passes, rebatch);
}

void build(OpPassManager &passes, const SlotsPipeline &options) {
  if (options.padsTokens && options.contextRanks > 1)
    passes.addPass(raise::createPadTokens({options.contextRanks}));
  if (options.expertRanks <= 1 && options.contextRanks <= 1 && options.capacity == 0 &&
      !options.each && !options.tiles)
    return;
  passes.addPass(
      raise::createExpertSlots({options.expertRanks, options.contextRanks, options.capacity,
                                options.drops, options.each, options.tiles}));
  passes.addPass(mlir::createCSEPass());
  passes.addPass(raise::createViewParameters());
}

void build(OpPassManager &passes, const PaddingPipeline &options) {
  if (options.isEven)
    passes.addPass(raise::createEvenPadding());
}

void build(OpPassManager &passes, const training::TrainOptions &options) {
  passes.addPass(training::createBuildTraining(training::passOptions(options)));
}

void build(OpPassManager &passes, const PartitionPipeline &options) {
  passes.addPass(stages::createCutStages());
  passes.addPass(std::make_unique<OnRanks>([options](OpPassManager &ofRank, int64_t, bool isCut) {
    ofRank.addPass(partition::createRecomputeBlocks());
    ofRank.addPass(
        partition::createPartitionModule({options.options.bucketBytes, options.options.regather}));
    ofRank.addPass(partition::createVerifyPartition());
    if (isCut)
      ofRank.addPass(stages::createSplitPasses({.splitBackward = options.splitBackward}));
  }));
}

void build(OpPassManager &passes, const SchedulePipeline &options) {
  passes.addPass(std::make_unique<OnRanks>(
      [](OpPassManager &ofRank, int64_t, bool) { ofRank.addPass(lower::createCutOffloaded()); }));
  passes.addPass(kernels::createLayersToKernels(options.compilation));
  passes.addPass(std::make_unique<OnRanks>([options](OpPassManager &ofRank, int64_t rank, bool) {
    ofRank.addPass(lower::createBuildSchedule({.microbatches = options.microbatches,
                                               .kind = options.kind,
                                               .ranks = options.ranks,
                                               .chunks = options.chunks,
                                               .kept = options.kept,
                                               .rank = rank,
                                               .trains = options.trains}));
  }));
  auto lowerCalls = [options](OpPassManager &ofRank, int64_t, bool) {
    ofRank.addPass(lower::createSumGradientsEarly());
    ofRank.addPass(lower::createBringFromHost());
    ofRank.addPass(lower::createStartCollectives());
    ofRank.addPass(lower::createPlanMemory({.threads = options.threads}));
    ofRank.addPass(lower::createVerifySchedule());
  };
  passes.addPass(std::make_unique<OnRanks>(std::move(lowerCalls), /*keepsStep=*/true));
}

//===----------------------------------------------------------------------===//
// For dtc-opt
//===----------------------------------------------------------------------===//

namespace {

using ErrorHandler = function_ref<LogicalResult(const Twine &)>;

struct RaiseFlags : PassPipelineOptions<RaiseFlags> {
  Option<int64_t> batch{*this, "batch", llvm::cl::init(RaisePipeline().batch)};
  RaisePipeline values() const { return {batch}; }
};

struct SlotsFlags : PassPipelineOptions<SlotsFlags> {
  Option<int64_t> parts{*this, "parts", llvm::cl::init(SlotsPipeline().expertRanks)};
  Option<int64_t> sections{*this, "sections", llvm::cl::init(SlotsPipeline().contextRanks)};
  Option<double> capacity{*this, "capacity", llvm::cl::init(SlotsPipeline().capacity)};
  Option<bool> drops{*this, "drops", llvm::cl::init(SlotsPipeline().drops)};
  Option<bool> each{*this, "each", llvm::cl::init(SlotsPipeline().each)};
  Option<bool> tiles{*this, "tiles", llvm::cl::init(SlotsPipeline().tiles)};
  Option<bool> padsTokens{*this, "pads-tokens", llvm::cl::init(SlotsPipeline().padsTokens)};
  SlotsPipeline values() const {
    return {parts, sections, capacity, drops, each, tiles, padsTokens};
  }
};

struct PaddingFlags : PassPipelineOptions<PaddingFlags> {
  Option<bool> even{*this, "even", llvm::cl::init(PaddingPipeline().isEven)};
  PaddingPipeline values() const { return {even}; }
};

struct PartitionFlags : PassPipelineOptions<PartitionFlags> {
  Option<int64_t> bucketBytes{*this, "bucket-bytes",
                              llvm::cl::init(partition::PartitionOptions().bucketBytes)};
  Option<bool> regather{*this, "regather", llvm::cl::init(partition::PartitionOptions().regather)};
  Option<bool> splitBackward{*this, "split-backward",
                             llvm::cl::init(PartitionPipeline().splitBackward)};
  PartitionPipeline values() const { return {{bucketBytes, regather}, splitBackward}; }
};

struct ScheduleFlags : PassPipelineOptions<ScheduleFlags> {
  Option<int64_t> microbatches{*this, "microbatches",
                               llvm::cl::init(SchedulePipeline().microbatches)};
  Option<int64_t> threads{*this, "threads", llvm::cl::init(SchedulePipeline().threads)};
  Option<std::string> kind{*this, "kind", llvm::cl::init(SchedulePipeline().kind)};
  Option<int64_t> ranks{*this, "ranks", llvm::cl::init(SchedulePipeline().ranks)};
  Option<int64_t> chunks{*this, "chunks", llvm::cl::init(SchedulePipeline().chunks)};
  Option<int64_t> kept{*this, "kept", llvm::cl::init(SchedulePipeline().kept)};
  Option<bool> trains{*this, "trains", llvm::cl::init(SchedulePipeline().trains)};
  SchedulePipeline values() const {
    return {microbatches, threads, kind, ranks, chunks, kept, trains};
  }
};

struct Entry {
  StringLiteral name;
  LogicalResult (*add)(OpPassManager &passes, StringRef flags, ErrorHandler fail);
};

} // namespace

template <typename Flags>
static LogicalResult add(OpPassManager &passes, StringRef text, ErrorHandler fail) {
  auto flags = Flags::createFromString(text);
  if (!flags)
    return fail("wrong options of the pipeline: " + text);
  build(passes, flags->values());
  return success();
}

/// The phase is one pass, whose options these are.
static LogicalResult addTraining(OpPassManager &passes, StringRef text, ErrorHandler fail) {
  std::unique_ptr<Pass> pass = training::createBuildTraining();
  if (failed(pass->initializeOptions(text, fail)))
    return failure();
  passes.addPass(std::move(pass));
  return success();
}

static constexpr Entry kPipelines[] = {
    {"raise", add<RaiseFlags>},         {"slots", add<SlotsFlags>},
    {"padding", add<PaddingFlags>},     {"train", addTraining},
    {"partition", add<PartitionFlags>}, {"schedule", add<ScheduleFlags>},
};

/// `text`: the phase's name, then its options.
static LogicalResult addNamed(OpPassManager &passes, StringRef text, ErrorHandler fail) {
  auto [name, flags] = text.trim().split(' ');
  std::string known;
  for (const Entry &entry : kPipelines) {
    if (entry.name == name)
      return entry.add(passes, flags.trim(), fail);
    known += (known.empty() ? "" : ", ") + entry.name.str();
  }
  return fail("no phase has this name: '" + name + "', known are " + known);
}

void registerPipelines() {
  raise::registerRaisePasses();
  training::registerTrainingPasses();
  stages::registerStagesPasses();
  partition::registerPartitionPasses();
  kernels::registerKernelsPasses();
  lower::registerLowerPasses();
  registerPassPipeline("dtc-pipeline", "the passes of a phase: its name, then its options",
                       addNamed, [](function_ref<void(const mlir::detail::PassOptions &)>) {});
}

} // namespace dtc::pipelines
