// The phases after planning: partition, schedule, lower, package.
#include "Phases.h"

#include "Verification.h"

#include "dtc-io/OutputPath.h"
#include "dtc-rt/Program/PartialFiles.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Driver/FlagWords.h"
#include "dtc/Lower/Pieces.h"
#include "dtc/Lower/Program.h"
#include "dtc/Pipelines/Pipelines.h"
#include "dtc/Plan/Plan/Trains.h"
#include "dtc/Replay/ReplayPrograms.h"
#include "dtc/Report/Artifact.h"
#include "dtc/Report/Json.h"
#include "dtc/Schedule/Descriptor.h"
#include "dtc/Stages/Stages.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dtc::driver {

//===----------------------------------------------------------------------===//
// Partition
//===----------------------------------------------------------------------===//

/// Parameters and buffers in the order of the model, which the ranks of a pipeline don't keep.
static std::vector<std::string> parametersOf(ModuleOp module) {
  std::vector<std::string> names;
  func::FuncOp joint = graph::microbatchFunction(module);
  for (unsigned i = 0; joint && i < joint.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(joint, i);
    if (role &&
        (role.getKind() == graph::RoleKind::Parameter || role.getKind() == graph::RoleKind::Buffer))
      names.push_back(role.getName().str());
  }
  return names;
}

Outcome<Partitioned> partition(const Options &options, Planned planned) {
  std::vector<std::string> parameters = parametersOf(planned.module());
  schedule::ScheduleShape shape = plan::scheduleShape(planned.search.plan.degrees);
  pipelines::PartitionPipeline asked;
  asked.options.regather = planned.search.plan.degrees.regather;
  asked.splitBackward = schedule::describe(shape.kind).splitsBackward();
  auto verification = Verification::prepare(options, planned, asked);
  if (!verification)
    return verification.category();
  if (failed(pipelines::run(planned.module(), asked)))
    return ErrorCategory::Failed;
  auto verified = verification->finish(planned.module());
  if (!verified)
    return verified.category();
  return Partitioned{std::move(planned), std::move(*verified), std::move(parameters)};
}

//===----------------------------------------------------------------------===//
// Schedule and lower
//===----------------------------------------------------------------------===//

/// Kernels are compiled while the rest of the program is made.
static LogicalResult scheduleModule(Environment &env, const Options &options,
                                    Scheduled &scheduled) {
  pipelines::SchedulePipeline asked;
  asked.microbatches = scheduled.batch.numMicrobatches;
  asked.threads = options.threadsPerRank;
  schedule::ScheduleShape shape = plan::scheduleShape(scheduled.search.plan.degrees);
  asked.kind = schedule::name(shape.kind);
  asked.ranks = shape.ranks;
  asked.chunks = shape.chunks;
  asked.kept = shape.kept;
  asked.trains = plan::trains(scheduled.problem);
  if (options.until > Phase::Schedule) {
    scheduled.kernels = env.target->kernelCompilation(env.context, {options.architectures});
    asked.compilation = scheduled.kernels.get();
  }
  if (failed(pipelines::run(scheduled.module(), asked)))
    return failure();
  return mlir::verify(scheduled.module());
}

Outcome<Scheduled> schedule(Environment &env, const Options &options, Partitioned partitioned) {
  Scheduled scheduled{std::move(partitioned), nullptr};
  if (succeeded(scheduleModule(env, options, scheduled)))
    return scheduled;
  return target::lacksLibraryCall(scheduled.module(), *env.target, options.threadsPerRank)
             ? ErrorCategory::InputRefused
             : ErrorCategory::Failed;
}

Outcome<Lowered> lower(Scheduled scheduled) {
  auto code = scheduled.kernels->finish();
  if (!code) {
    scheduled.module().emitError() << llvm::toString(code.takeError());
    return ErrorCategory::Failed;
  }
  return Lowered{std::move(scheduled), std::move(*code)};
}

//===----------------------------------------------------------------------===//
// Package
//===----------------------------------------------------------------------===//

static nlohmann::ordered_json learningRateJson(const LearningRate &rate) {
  return {{"lr", rate.lr},
          {"schedule", wordOf(kLearningRateSchedules, rate.schedule)},
          {"warmup_steps", rate.warmupSteps},
          {"total_steps", rate.totalSteps},
          {"min_lr", rate.minLr}};
}

static nlohmann::ordered_json aboutArtifact(const Environment &env, const Options &options,
                                            const Planned &planned) {
  using Json = nlohmann::ordered_json;
  const auto &train = options.train;
  const plan::SearchResult &search = planned.search;
  int64_t sequence = planned.problem.tokensPerSample;
  Json about;
  target::Processor processor = env.target->processor();
  about["target"] = env.target->name().str();
  about["processor"] = {{"arch", processor.arch}, {"features", processor.features}};
  about["global_batch"] = planned.batch.globalBatch - planned.paddedSamples;
  if (planned.paddedSamples > 0)
    about["padded_samples"] = planned.paddedSamples;
  about["sequence"] = sequence ? Json(sequence) : Json(nullptr);
  about["vocabulary"] = planned.vocabulary ? Json(planned.vocabulary) : Json(nullptr);
  about["traits"] = planned.traits;
  about["loss"] = options.loss;
  about["ignore_index"] = train.ignoreIndex;
  about["learning_rate"] = learningRateJson(options.learningRate);
  about["optimizer"] = {{"kind", wordOf(kOptimizers, train.optimizer)},
                        {"beta1", train.beta1},
                        {"beta2", train.beta2},
                        {"eps", train.eps},
                        {"weight_decay", train.weightDecay},
                        {"momentum", train.momentum},
                        {"nesterov", train.nesterov}};
  about["plan"] = report::degreesJson(search.plan.degrees);
  about["predicted"] = {{"step_time_s", search.predicted.stepSeconds},
                        {"exposed_communication_s", search.predicted.communicationSeconds},
                        {"bubble_fraction", search.predicted.bubbleFraction},
                        {"peak_memory_bytes", search.predicted.memory.total()}};
  return about;
}

/// Refuses programs that would read something else than they should.
static Failure replayPrograms(const std::vector<package::Role> &roles) {
  std::vector<replay::Role> replayed;
  for (const package::Role &role : roles)
    replayed.push_back({role.program, role.ranks});
  std::string wrong = replay::replayPrograms(replayed);
  if (wrong.empty())
    return std::nullopt;
  return fail({"internal error: the compiled program is wrong: " + wrong, ErrorCategory::Failed});
}

Failure package(const Environment &env, const Options &options, Scheduled &scheduled,
                const Weights &weights) {
  package::PackageInputs inputs;
  inputs.path = io::endOfLinks(options.output); // from there its weights are found
  inputs.parameters = scheduled.parameters;
  inputs.batchDims = scheduled.model.batchDims;
  std::vector<lower::RoleProgram> programs; // live until they are written
  SmallVector<ModuleOp> roles = stages::rankModules(scheduled.module());
  if (failed(lower::checkPieces(roles)))
    return ErrorCategory::Failed;
  for (ModuleOp role : roles) {
    auto built = lower::buildProgram(role);
    if (failed(built))
      return ErrorCategory::Failed;
    // The IR is in f32 throughout: which products are rounded doesn't change what a pass may do.
    built->program->tf32 = options.train.precision == training::Precision::TF32;
    inputs.roles.push_back({built->program.get(), built->ranks, role});
    programs.push_back(std::move(*built));
  }
  if (Failure failure = replayPrograms(inputs.roles))
    return failure;
  target::CodeObject code; // lives until it is written
  inputs.code = [&]() -> llvm::Expected<std::vector<package::CodeFile>> {
    auto compiled = scheduled.kernels->finish();
    if (!compiled)
      return compiled.takeError();
    code = std::move(*compiled);
    std::vector<package::CodeFile> files;
    for (const target::CodeFile &file : code.files)
      files.push_back({file.name, std::as_bytes(std::span(file.bytes))});
    return files;
  };
  inputs.weights = &weights.store;
  inputs.embedWeights = options.embedWeights;
  inputs.data = options.data;
  inputs.init = weights.init;
  inputs.about = aboutArtifact(env, options, scheduled);
  rt::removeAbandonedPartials(inputs.path);
  if (failed(package::writePackage(inputs)))
    return ErrorCategory::Failed;
  if (!code.warning.empty())
    printWarning(code.warning);
  return std::nullopt;
}

} // namespace dtc::driver
