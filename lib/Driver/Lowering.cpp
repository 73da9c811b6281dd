// The phases after planning: partition, schedule, lower, package.
#include "Compilation.h"

#include "Diagnostics.h"
#include "Weights.h"

#include "dtc/Interpreter/Step.h"
#include "dtc/Kernels/KernelFormation.h"
#include "dtc/Package/Package.h"
#include "dtc/Partition/Partition.h"
#include "dtc/Report/Json.h"
#include "dtc/Replay/ReplayPrograms.h"
#include "dtc/Report/Words.h"
#include "dtc/Lower/PartialFunction.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Lower/Program.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dtc::driver {

/// Doesn't verify after each pass: that would be a tenth of a deep model's compilation.
LogicalResult Compilation::runPasses(llvm::function_ref<void(OpPassManager &)> build) {
  PassManager manager(&context);
  manager.enableVerifier(false);
  build(manager);
  return manager.run(module());
}

ExitCode Compilation::partition() {
  auto missing = plan::unimplemented(problem, search.plan);
  if (!missing.empty())
    return fail({"this plan cannot be compiled yet: " + missing.front(), 2});
  if (!search.predicted.fits())
    return fail({"the plan needs " + report::formatBytes(search.predicted.memory.total()) +
                     " a rank, more than the " +
                     report::formatBytes(search.predicted.memoryCapacity) + " there are",
                 4});
  OwningOpRef<ModuleOp> global;
  if (options.verify) {
    if (ExitCode code = checkVerifiable(); code != ExitCode::Done)
      return code;
    global = module().clone();
  }
  if (failed(partition::partition(module())) || failed(partition::verifyPartition(module())))
    return ExitCode::Failed;
  return options.verify ? verifyRanks(*global) : ExitCode::Done;
}

/// At most a few minutes of the interpreter, which makes up to two calls on either side.
ExitCode Compilation::checkVerifiable() {
  constexpr double kMostFlops = 2e11, kMostElements = 5e8;
  double flops = 0, elements = 0;
  for (const plan::Op &op : problem.ops) {
    flops += op.flops;
    for (plan::ValueId result : op.results)
      elements += double(problem.values[result].elements());
    // A grouped product is taken apart: each row's weights, the row as often, and their products.
    if (op.isGroupedProduct())
      elements += 3 * op.flops / 2;
  }
  auto calls = double(std::min<int64_t>(batch.numMicrobatches, 2));
  flops *= calls;
  elements *= calls;
  if (flops <= kMostFlops && elements <= kMostElements)
    return ExitCode::Done;
  char text[160];
  std::snprintf(text, sizeof(text),
                "--verify: the reference interpreter is too slow for this step: %.3g flops and "
                "%.3g elements, at most %.3g and %.3g",
                flops, elements, kMostFlops, kMostElements);
  return fail({text, 2});
}

ExitCode Compilation::verifyRanks(ModuleOp global) {
  interpreter::StepOptions asked;
  asked.microbatches = batch.numMicrobatches;
  if (options.train.loss == training::LossKind::CrossEntropy)
    asked.ignoreIndex = options.train.ignoreIndex;
  auto compared = interpreter::compareStep(global, module(), asked);
  if (failed(compared))
    return ExitCode::Failed;
  char text[96];
  std::snprintf(text, sizeof(text), "%s, largest difference %.2g of its largest element: ",
                compared->ranks == 1 ? "1 rank"
                                     : (std::to_string(compared->ranks) + " ranks").c_str(),
                compared->worst);
  if (!compared->isEqual())
    return fail({"--verify: the partitioned program doesn't compute what one rank computes: " +
                     std::string(text) + compared->worstTensor,
                 1});
  verified = "verified " + std::to_string(compared->tensors) + " tensors of a step on " + text +
             compared->worstTensor;
  return ExitCode::Done;
}

/// Kernels are compiled while the rest of the program is made.
LogicalResult Compilation::scheduleModule() {
  kernels::KernelFormation::Formed compile;
  if (last > Phase::Schedule) {
    kernels = target->kernelCompilation(context);
    compile = [this](exec::KernelOp kernel) { return kernels->add(kernel); };
  }
  if (failed(kernels::formKernels(module(), *target, compile)) ||
      (kernels && failed(kernels->close())))
    return failure();
  LogicalResult planned = runPasses([&](OpPassManager &manager) {
    manager.addPass(lower::createBuildSchedule({.microbatches = batch.numMicrobatches}));
    manager.addPass(lower::createPlanMemory({.threads = options.threadsPerRank}));
    manager.addPass(lower::createVerifySchedule());
  });
  return failed(planned) ? failure() : mlir::verify(module());
}

ExitCode Compilation::schedule() {
  if (!target)
    return fail({"--target cuda can be planned for, but not compiled for yet", 2});
  if (succeeded(scheduleModule()))
    return ExitCode::Done;
  return target::lacksLibraryCall(module(), *target, options.threadsPerRank)
             ? ExitCode::InputRefused
             : ExitCode::Failed;
}

/// Ops are scheduled alone as the program will be.
std::unique_ptr<plan::Workspace> Compilation::makeWorkspace() {
  if (!target)
    return nullptr;
  auto measure = [this](ModuleOp alone, const std::vector<bool> &spent) -> FailureOr<int64_t> {
    PassManager manager(&context);
    manager.addPass(lower::createBuildSchedule({.microbatches = 1}));
    if (failed(kernels::formKernels(alone, *target)) || failed(manager.run(alone)))
      return failure();
    return lower::bytesWithinFunction(alone, options.threadsPerRank, spent);
  };
  return std::make_unique<planbridge::LocalWorkspace>(module(), measure);
}

/// An artifact takes the code when it gets there.
ExitCode Compilation::lower() {
  if (last == Phase::End)
    return ExitCode::Done;
  if (llvm::Error error = finishCode()) {
    module().emitError() << llvm::toString(std::move(error));
    return ExitCode::Failed;
  }
  return ExitCode::Done;
}

llvm::Error Compilation::finishCode() {
  auto compiled = kernels->finish();
  if (!compiled)
    return compiled.takeError();
  code = std::move(*compiled);
  return llvm::Error::success();
}

/// Gives every parameter its data: from the model file, --weights or --init.
ExitCode Compilation::resolveWeights() {
  if (!options.weights.empty()) {
    auto kept = loadWeights(options.weights, module(), model.weights, /*partial=*/options.init);
    if (!kept)
      return fail(kept.error());
    if (!kept->empty())
      printWarning(options.weights + ": lacks what keeps the data of " + options.model + ": " +
                   llvm::join(*kept, ", "));
  }
  if (options.init) {
    auto chosen = chooseInitialization(module(), model.weights);
    if (!chosen)
      return fail(chosen.error());
    init = std::move(*chosen);
  }
  for (const std::string &name : withoutData(module(), model.weights))
    if (!init.contains(name))
      return fail({options.model + ": has no data for '" + name +
                       "'; give --weights FILE, or --init to draw it",
                   3});
  return ExitCode::Done;
}

static nlohmann::ordered_json learningRateJson(const LearningRate &rate) {
  static const char *names[] = {"constant", "linear", "cosine"};
  return {{"lr", rate.lr},
          {"schedule", names[int(rate.schedule)]},
          {"warmup_steps", rate.warmupSteps},
          {"total_steps", rate.totalSteps},
          {"min_lr", rate.minLr}};
}

nlohmann::ordered_json Compilation::aboutArtifact() const {
  using Json = nlohmann::ordered_json;
  static const char *optimizers[] = {"sgd", "adam", "adamw"};
  const auto &train = options.train;
  int64_t sequence = problem.tokensPerSample;
  Json about;
  target::Processor processor = target->processor();
  about["target"] = target->name().str();
  about["processor"] = {{"arch", processor.arch}, {"features", processor.features}};
  about["global_batch"] = batch.globalBatch;
  about["sequence"] = sequence ? Json(sequence) : Json(nullptr);
  about["vocabulary"] = vocabulary ? Json(vocabulary) : Json(nullptr);
  about["loss"] = options.loss;
  about["ignore_index"] = train.ignoreIndex;
  about["learning_rate"] = learningRateJson(options.learningRate);
  about["optimizer"] = {{"kind", optimizers[int(train.optimizer)]},
                        {"beta1", train.beta1},
                        {"beta2", train.beta2},
                        {"eps", train.eps},
                        {"weight_decay", train.weightDecay},
                        {"momentum", train.momentum},
                        {"nesterov", train.nesterov}};
  about["plan"] = report::degreesJson(search.plan.degrees);
  about["predicted"] = {{"step_time_s", search.predicted.stepSeconds},
                        {"peak_memory_bytes", search.predicted.memory.total()}};
  return about;
}

ExitCode Compilation::replayPrograms(const std::vector<package::Role> &roles) {
  std::vector<replay::Role> replayed;
  for (const package::Role &role : roles)
    replayed.push_back({role.program, role.ranks});
  std::string wrong = replay::replayPrograms(replayed);
  if (wrong.empty())
    return ExitCode::Done;
  return fail({"internal error: the compiled program is wrong: " + wrong, 1});
}

ExitCode Compilation::package() {
  package::PackageInputs inputs;
  inputs.init = init;
  auto built = lower::buildProgram(module());
  if (failed(built))
    return ExitCode::Failed;
  program = std::move(built->program);
  inputs.path = options.output;
  inputs.roles.push_back({program.get(), std::move(built->ranks), module()});
  if (ExitCode code = replayPrograms(inputs.roles); code != ExitCode::Done)
    return code;
  inputs.code = [this]() -> llvm::Expected<std::vector<package::CodeFile>> {
    if (llvm::Error error = finishCode())
      return std::move(error);
    std::vector<package::CodeFile> files;
    for (const target::CodeFile &file : code.files)
      files.push_back({file.name, std::as_bytes(std::span(file.bytes))});
    return files;
  };
  inputs.weights = &model.weights;
  inputs.embedWeights = options.embedWeights;
  inputs.about = aboutArtifact();
  return succeeded(package::writePackage(inputs)) ? ExitCode::Done : ExitCode::Failed;
}

} // namespace dtc::driver
