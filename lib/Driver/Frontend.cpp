// The phases from a file to a training step: import, train.
#include "Flags/OutputFiles.h"
#include "ModelTraits.h"
#include "Phases.h"
#include "Weights.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Driver/Driver.h"
#include "dtc/Driver/FlagWords.h"
#include "dtc/Import/ONNX/Import.h"
#include "dtc/Import/PyTorch/Import.h"
#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Raise/SamplesApart.h"
#include "dtc/Target/Targets.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;

namespace dtc::driver {

static const target::Target *targetOf(const Options &options) {
  return target::find(wordOf(kTargets, options.target));
}

static DialectRegistry makeRegistry(const target::Target *target) {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect, dist::DistDialect, exec::ExecDialect, arith::ArithDialect,
                  math::MathDialect, func::FuncDialect>();
  graph::registerElementwiseModels(registry);
  target::chooseTarget(registry, *target);
  return registry;
}

Environment::Environment(const Options &options)
    : target(targetOf(options)), context(makeRegistry(target), MLIRContext::Threading::DISABLED),
      printer(context, options.model, options.modelName) {
  // The constructor's flag leaves types and attributes with their locks.
  context.disableMultithreading();
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false); // users get one line, not the IR
}

//===----------------------------------------------------------------------===//
// Import
//===----------------------------------------------------------------------===//

Outcome<std::unique_ptr<import::ModelFile>> openModel(Environment &env, const Options &options) {
  import::ImportOptions asked = options.import;
  asked.path = options.model;
  auto file = import::isExportedProgram(asked.path)
                  ? import::openExportedProgram(env.context, asked)
                  : import::openONNX(env.context, asked);
  if (failed(file))
    return ErrorCategory::InputRefused;
  return std::move(*file);
}

std::string importedOperators() { return llvm::join(import::atenOperators(), ","); }

/// Into how many calls the batch is cut before there is a plan.
static plan::Result<BatchChoice> firstBatch(const Request &request, int64_t fileBatch) {
  const Options &options = request.options;
  int64_t dataParallel = request.spec.dp.value_or(options.devices) * request.spec.ep.value_or(1);
  auto choice = chooseBatch(request, fileBatch, dataParallel);
  if (!request.isBatchOpen() && !choice)
    return choice.error();
  bool planned = request.isBatchOpen() || (options.onlyPlan && !request.hasPlanFile());
  if (choice && !planned)
    return choice;
  // The planner cuts the batch; see makePlan.
  return BatchChoice{request.globalBatch.value_or(std::max<int64_t>(fileBatch, 1) * dataParallel),
                     1};
}

import::Samples samplesIn(const Request &request, const BatchChoice &cut) {
  return {cut.perCall(), cut.globalBatch - request.paddedSamples};
}

/// Samples without targets must change nothing of the others.
static LogicalResult checkPadded(const Request &request, const import::ImportedModel &model) {
  const int64_t padded = *request.globalBatch, own = padded - request.paddedSamples;
  std::string purpose = "cannot pad the batch of " + std::to_string(own) +
                        " for dp=" + std::to_string(*request.spec.dp);
  if (request.spec.microBatch)
    purpose += " and micro_batch=" + std::to_string(*request.spec.microBatch);
  std::vector<std::string> whole;
  for (const auto &[name, dim] : model.batchDims)
    if (!dim)
      whole.push_back(name);
  return raise::checkSamplesApart(
      graph::findFunction(*model.module, graph::kForward), whole, std::move(purpose),
      "; --global-batch " + std::to_string(padded) + " needs no padding");
}

/// Without a global batch the file's own decides, which importing tells.
Outcome<Imported> importModel(const Request &request, const import::ModelFile &file) {
  FailureOr<import::ImportedModel> asInFile = import::ImportedModel();
  if (!request.globalBatch) {
    asInFile = file.import(std::nullopt);
    if (failed(asInFile))
      return ErrorCategory::InputRefused;
  }
  auto batch = firstBatch(request, asInFile->fileBatch);
  if (!batch)
    return fail(batch.error());
  auto accept = [&](import::ImportedModel model) -> Outcome<Imported> {
    rt::Status status = checkOutputs(request.options, model.weights);
    if (!status.isOk())
      return fail(status.error());
    return Imported{std::move(model), *batch};
  };
  // A model may compute with the samples of a step, which several calls have.
  if (!request.globalBatch && batch->numMicrobatches == 1 &&
      batch->globalBatch == std::max<int64_t>(asInFile->fileBatch, 1))
    return accept(std::move(*asInFile));
  // Without weights nothing can be trained, but everything can be planned.
  auto model = file.import(samplesIn(request, *batch));
  if (failed(model) || (request.paddedSamples > 0 && failed(checkPadded(request, *model))))
    return ErrorCategory::InputRefused;
  return accept(std::move(*model));
}

//===----------------------------------------------------------------------===//
// Train
//===----------------------------------------------------------------------===//

/// Bound of the token input: integers that only look up an embedding. 0: there
/// is no such input.
static int64_t vocabularyOf(ModuleOp module) {
  func::FuncOp function = graph::microbatchFunction(module);
  for (unsigned i = 0; function && i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    auto limit = function.getArgAttrOfType<IntegerAttr>(i, graph::GraphDialect::kLimit);
    if (role && limit && role.getKind() == graph::RoleKind::Input)
      return limit.getInt();
  }
  return 0;
}

/// GPUs multiply by libraries. Without slots of its own for each expert, each row would read the
/// weights of its experts.
pipelines::SlotsPipeline slotsFor(const Options &options, bool isForOwnProgram,
                                  const plan::Degrees &degrees) {
  const bool isOthers = options.onlyPlan && options.target != Target::CPU && !isForOwnProgram;
  if (isOthers && degrees.capacity.isWorstCase())
    return {};
  return {.expertRanks = degrees.ep,
          .contextRanks = degrees.cp,
          .capacity = degrees.capacity.factor,
          .drops = degrees.overflow == plan::Overflow::Drop,
          .each = options.target == Target::CUDA,
          .tiles = degrees.capacity.inTiles,
          .padsTokens = isForOwnProgram && options.train.loss == training::LossKind::CrossEntropy};
}

pipelines::SlotsPipeline slotsFor(const Request &request, const plan::Degrees &degrees) {
  return slotsFor(request.options, request.isForOwnProgram(), degrees);
}

pipelines::SlotsPipeline slotsFor(const Request &request, const plan::Spec &spec) {
  plan::Degrees degrees;
  for (const plan::Setting &setting : plan::settings())
    plan::applyPin(setting, spec, degrees);
  return slotsFor(request, degrees);
}

Outcome<Trained> importForTraining(const Request &request, const import::ModelFile &file) {
  auto imported = importModel(request, file);
  if (!imported)
    return imported.category();
  return buildTraining(request.options, std::move(*imported), slotsFor(request, request.spec));
}

static bool isMixture(ModuleOp module) {
  return module.walk([](graph::DispatchOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

bool multipliesTiles(const Options &options) {
  const training::Precision precision = options.train.precision;
  return options.target == Target::CUDA && precision != training::Precision::F32 &&
         precision != training::Precision::TF32;
}

/// A capacity is of experts that rows look up.
static std::optional<plan::Error> checkCapacity(const Options &options, ModuleOp module,
                                                const pipelines::SlotsPipeline &slots) {
  if (slots.capacity == 0 && slots.drops)
    return plan::Error{"plan: overflow=drop needs a capacity with a number", ErrorCategory::Usage};
  if (slots.tiles && !multipliesTiles(options))
    return plan::Error{
        "plan: capacity=tiles is for GPUs in bf16 or fp16, where tensor cores multiply "
        "tiles",
        ErrorCategory::Usage};
  if (slots.capacity == 0 && !slots.tiles)
    return std::nullopt;
  if (isMixture(module))
    return std::nullopt;
  return plan::Error{options.model + ": no experts that tokens look up, which capacity= is about",
                     ErrorCategory::Usage};
}

Outcome<Trained> buildTraining(const Options &options, Imported imported,
                               pipelines::SlotsPipeline slots) {
  if (auto wrong = checkCapacity(options, imported.module(), slots))
    return fail(*wrong);
  std::map<std::string, std::string> traits = traitsOf(imported.module(), options.train);
  slots.each = slots.each && isMixture(imported.module());
  if (failed(pipelines::run(imported.module(), slots)))
    return ErrorCategory::InputRefused;
  auto target = target::targetOf(imported.module());
  if (failed(target))
    return ErrorCategory::Failed;
  const pipelines::PaddingPipeline padding{.isEven = !(*target)->hasUnevenPadding()};
  if (failed(pipelines::run(imported.module(), padding)))
    return ErrorCategory::Failed;
  training::TrainOptions asked = options.train;
  asked.numMicrobatches = imported.batch.numMicrobatches;
  if (failed(pipelines::run(imported.module(), asked)))
    return ErrorCategory::InputRefused;
  if (failed(mlir::verify(imported.module())))
    return ErrorCategory::Failed;
  int64_t vocabulary = vocabularyOf(imported.module());
  return Trained{std::move(imported), vocabulary, std::move(traits)};
}

/// dtc-run reads inputs and writes outputs sample by sample, but for those without samples.
static LogicalResult checkSamples(ModuleOp module, const import::BatchDims &batchDims,
                                  int64_t samples) {
  func::FuncOp function = graph::findFunction(module, graph::kForward);
  auto isWhole = [&](graph::RoleAttr role) {
    auto found = batchDims.find(role.getName().str());
    return found != batchDims.end() && !found->second;
  };
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto role = graph::getArgRole(function, i);
    if (role.getKind() == graph::RoleKind::Input && cast<RankedTensorType>(type).getRank() == 0)
      return function.emitError() << "the input '" << role.getName()
                                  << "' has no samples; say --batch-dim " << role.getName()
                                  << "=none";
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    auto shape = cast<RankedTensorType>(type).getShape();
    auto role = graph::getResultRole(function, i);
    if (!isWhole(role) && (shape.empty() || shape.front() != samples))
      return function.emitError() << "the output '" << role.getName()
                                  << "' is not one of each of the " << samples
                                  << " samples, its type is " << type;
  }
  return success();
}

/// The first names, and how many more there are.
static std::string someOf(llvm::ArrayRef<std::string> names) {
  constexpr size_t shown = 8;
  std::string text = llvm::join(names.take_front(shown), ", ");
  if (names.size() > shown)
    text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

/// Every parameter gets its data from the model file, --weights or --init.
static Outcome<Weights> resolveWeights(const Options &options, Trained &trained) {
  ModuleOp module = trained.module();
  Weights weights{std::move(trained.model.weights), {}};
  if (!options.weights.empty()) {
    auto loaded = loadWeights(options.weights, module, weights.store, /*partial=*/options.init);
    if (!loaded)
      return fail(loaded.error());
    auto warn = [&](const std::vector<std::string> &names, const std::string &what) {
      if (!names.empty())
        printWarning(options.weights + ": " + what + ": " + someOf(names));
    };
    warn(loaded->kept, "lacks what keeps the data of " + options.model);
    warn(loaded->missing, "lacks what is drawn at random");
    warn(loaded->unread, "has what the model lacks, which is not read");
  }
  weights.init = madeForTraining(module, weights.store);
  if (options.init) {
    auto chosen = chooseInitialization(module, weights.store);
    if (!chosen)
      return fail({options.model + ": " + chosen.error().message, chosen.error().category});
    weights.init.merge(*chosen);
  }
  for (const std::string &name : withoutData(module, weights.store))
    if (!weights.init.contains(name))
      return fail({options.model + ": has no data for '" + name +
                   "'; give --weights FILE, or --init to draw it"});
  return weights;
}

Outcome<Weights> prepareToCompile(const Environment &env, const Options &options,
                                  Trained &trained) {
  if (options.until <= Phase::Plan)
    return Weights();
  if (failed(env.target->checkElementTypes(trained.module())))
    return ErrorCategory::InputRefused;
  if (options.train.loss == training::LossKind::None &&
      failed(checkSamples(trained.module(), trained.model.batchDims, trained.batch.perCall())))
    return ErrorCategory::InputRefused;
  return options.until == Phase::End ? resolveWeights(options, trained) : Weights();
}

} // namespace dtc::driver
