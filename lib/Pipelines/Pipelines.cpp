#include "dtc/Pipelines/Pipelines.h"

#include "dtc/Kernels/Passes.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Partition/Passes.h"
#include "dtc/Raise/Passes.h"
#include "dtc/Training/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace dtc::pipelines {

void build(OpPassManager &passes, const RaisePipeline &options) {
  raise::buildRaisePipeline(passes, options.batch);
}

void build(OpPassManager &passes, const training::TrainOptions &options) {
  passes.addPass(training::createBuildTraining(training::passOptions(options)));
}

void build(OpPassManager &passes, const partition::PartitionOptions &options) {
  passes.addPass(partition::createPartitionModule({options.bucketBytes}));
  passes.addPass(partition::createVerifyPartition());
}

void build(OpPassManager &passes, const SchedulePipeline &options) {
  passes.addPass(kernels::createLayersToKernels(options.compilation));
  passes.addPass(lower::createBuildSchedule({.microbatches = options.microbatches}));
  passes.addPass(lower::createPlanMemory({.threads = options.threads}));
  passes.addPass(lower::createVerifySchedule());
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

struct PartitionFlags : PassPipelineOptions<PartitionFlags> {
  Option<int64_t> bucketBytes{*this, "bucket-bytes",
                              llvm::cl::init(partition::PartitionOptions().bucketBytes)};
  partition::PartitionOptions values() const { return {bucketBytes}; }
};

struct ScheduleFlags : PassPipelineOptions<ScheduleFlags> {
  Option<int64_t> microbatches{*this, "microbatches",
                               llvm::cl::init(SchedulePipeline().microbatches)};
  Option<int64_t> threads{*this, "threads", llvm::cl::init(SchedulePipeline().threads)};
  SchedulePipeline values() const { return {microbatches, threads}; }
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
    {"raise", add<RaiseFlags>},
    {"train", addTraining},
    {"partition", add<PartitionFlags>},
    {"schedule", add<ScheduleFlags>},
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
  partition::registerPartitionPasses();
  kernels::registerKernelsPasses();
  lower::registerLowerPasses();
  registerPassPipeline("dtc-pipeline", "the passes of a phase: its name, then its options",
                       addNamed, [](function_ref<void(const mlir::detail::PassOptions &)>) {});
}

} // namespace dtc::pipelines
