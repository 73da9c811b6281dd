#include "Compilation.h"

#include "Diagnostics.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Import/ONNX/Import.h"
#include "dtc/Plan/Plan/TextFile.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Target/Targets.h"

#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <chrono>
#include <limits>

using namespace mlir;

namespace dtc::driver {

using plan::Error;
using plan::Result;

/// The target as a compiler's; null where it can only be planned for.
static const target::Target *targetOf(const Options &options) {
  return target::find(options.target == Target::CPU ? "cpu" : "cuda");
}

static DialectRegistry makeRegistry(const target::Target *target) {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect, dist::DistDialect, exec::ExecDialect, arith::ArithDialect,
                  math::MathDialect, func::FuncDialect>();
  graph::registerElementwiseModels(registry);
  if (target)
    target::chooseTarget(registry, *target);
  return registry;
}

Compilation::Compilation(Options given)
    : options(std::move(given)), target(targetOf(options)),
      context(makeRegistry(target), MLIRContext::Threading::DISABLED) {
  // The constructor's flag leaves types and attributes with their locks.
  context.disableMultithreading();
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false); // users get one line, not the IR
  options.import.path = options.model;
}

ExitCode Compilation::run(Phase until) {
  last = until;
  struct Entry {
    Phase phase;
    ExitCode (Compilation::*run)();
  };
  static constexpr Entry phases[] = {
      {Phase::Import, &Compilation::importModel},
      {Phase::Train, &Compilation::buildTraining},
      {Phase::Plan, &Compilation::planAndApply},
      {Phase::Partition, &Compilation::partition},
      {Phase::Schedule, &Compilation::schedule},
      {Phase::Lower, &Compilation::lower},
      {Phase::End, &Compilation::package},
  };
  DiagnosticPrinter printer(context, options.model);
  for (const Entry &entry : phases) {
    if (ExitCode code = (this->*entry.run)(); code != ExitCode::Done)
      return code;
    if (entry.phase == last)
      break;
  }
  return ExitCode::Done;
}

ExitCode Compilation::prepareProblem() {
  if (ExitCode code = run(Phase::Train); code != ExitCode::Done)
    return code;
  DiagnosticPrinter printer(context, options.model);
  return extractProblem();
}

ExitCode Compilation::fail(const Error &error) {
  printError(error.message);
  return ExitCode(error.exitCode);
}

//===----------------------------------------------------------------------===//
// Import and training
//===----------------------------------------------------------------------===//

static bool isPlanFile(const std::string &plan) {
  return plan.ends_with(".yaml") || plan.ends_with(".yml");
}

bool Compilation::hasPlanFile() const { return isPlanFile(options.plan); }

/// What a plan file's degrees say is pinned, the batch and its microbatches too.
Result<plan::Spec> Compilation::specOfPlanFile() {
  std::optional<std::string> text = plan::readText(options.plan);
  if (!text)
    return Error{options.plan + ": cannot read the plan", 3};
  planText = std::move(*text);
  auto degrees = plan::degreesFromYaml(planText, options.plan);
  if (!degrees)
    return degrees.error();
  plan::Spec spec = plan::pinned(*degrees, {});
  if (!plan::fill(spec, options.devices) || degrees->devices() != options.devices)
    return Error{options.plan + ": made for another number of devices than " +
                     std::to_string(options.devices),
                 2};
  // No factor is above kMostDegree, so no product of three of them overflows.
  int64_t calls = degrees->microBatch * degrees->numMicrobatches;
  if (calls > plan::kMostDegree / (degrees->dp * degrees->ep))
    return Error{options.plan + ": its batch is out of range", 3};
  if (!options.globalBatch)
    options.globalBatch = degrees->dp * degrees->ep * calls;
  return spec;
}

ExitCode Compilation::readSpec() {
  auto loaded = plan::loadCluster(options.cluster);
  if (!loaded)
    return fail(loaded.error());
  cluster = *loaded;
  // The artifact fixes the threads of a rank: fewer than there are cores for are planned for.
  if (cluster.sharedMemory)
    cluster.cores = std::min(cluster.cores, options.threadsPerRank * options.devices);
  auto parsed = hasPlanFile() ? specOfPlanFile() : plan::parseSpec(options.plan);
  if (!parsed)
    return fail(parsed.error());
  auto filled = plan::fill(*parsed, options.devices);
  if (!filled)
    return fail(filled.error());
  spec = *filled;
  if (options.microBatch && spec.microBatch && *options.microBatch != *spec.microBatch)
    return fail({"--micro-batch " + std::to_string(*options.microBatch) +
                     " contradicts micro_batch=" + std::to_string(*spec.microBatch) + " in --plan",
                 2});
  given = *parsed;
  if (options.microBatch)
    given.microBatch = spec.microBatch = options.microBatch;
  return ExitCode::Done;
}

Result<BatchChoice> Compilation::chooseBatch(int64_t dataParallel) const {
  int64_t fileBatch = std::max<int64_t>(model.fileBatch, 1);
  BatchChoice choice{options.globalBatch.value_or(fileBatch * dataParallel), 1};
  if (!spec.microBatch)
    return choice;
  int64_t perCall = dataParallel * *spec.microBatch;
  if (choice.globalBatch % perCall)
    return Error{"the global batch " + std::to_string(choice.globalBatch) +
                     " is not a multiple of " + std::to_string(dataParallel) +
                     " data-parallel ranks times micro batch " + std::to_string(*spec.microBatch),
                 2};
  choice.numMicrobatches = choice.globalBatch / perCall;
  return choice;
}

ExitCode Compilation::importBatch(std::optional<int64_t> size) {
  options.import.batch = size;
  // Without weights nothing can be trained, but everything can be planned.
  auto imported = import::importONNX(context, options.import);
  if (failed(imported))
    return ExitCode::InputRefused;
  model = std::move(*imported);
  return ExitCode::Done;
}

/// True while the data-parallel degree, and with it the batch, isn't known.
bool Compilation::degreesOpen() const { return !spec.dp; }

/// Without a global batch the file's own decides, which importing tells.
ExitCode Compilation::importModel() {
  if (ExitCode code = readSpec(); code != ExitCode::Done)
    return code;
  if (!options.globalBatch)
    if (ExitCode code = importBatch(std::nullopt); code != ExitCode::Done)
      return code;
  auto choice = chooseBatch(spec.dp.value_or(options.devices) * spec.ep.value_or(1));
  if (!degreesOpen() && !choice)
    return fail(choice.error());
  if (!choice || degreesOpen() || (options.onlyPlan && !hasPlanFile()))
    // The planner cuts the batch; see makePlan.
    batch = {options.globalBatch.value_or(std::max<int64_t>(model.fileBatch, 1) *
                                          spec.dp.value_or(options.devices) *
                                          spec.ep.value_or(1)),
             1};
  else
    batch = *choice;
  bool imported = !options.globalBatch && batch.perCall() == std::max<int64_t>(model.fileBatch, 1);
  return imported ? ExitCode::Done : importBatch(batch.perCall());
}

/// Bound of the token input: integers that only look up an embedding. 0: there
/// is no such input.
static int64_t vocabularyOf(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("loss_and_grads");
  if (!function)
    function = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; function && i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    auto limit = function.getArgAttrOfType<IntegerAttr>(i, graph::GraphDialect::kLimit);
    if (role && limit && role.getKind() == graph::RoleKind::Input)
      return limit.getInt();
  }
  return 0;
}

/// dtc-run writes outputs sample by sample.
static LogicalResult checkOutputs(ModuleOp module, int64_t samples) {
  auto function = module.lookupSymbol<func::FuncOp>("forward");
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    auto shape = cast<RankedTensorType>(type).getShape();
    if (shape.empty() || shape.front() != samples)
      return function.emitError() << "the output '"
                                  << graph::getResultRole(function, i).getName()
                                  << "' is not one of each of the " << samples
                                  << " samples, its type is " << type;
  }
  return success();
}

ExitCode Compilation::buildTraining() {
  options.train.numMicrobatches = batch.numMicrobatches;
  if (failed(training::buildTraining(module(), options.train)))
    return ExitCode::InputRefused;
  vocabulary = vocabularyOf(module());
  if (failed(mlir::verify(module())))
    return ExitCode::Failed;
  // Planning needs no library and takes long; what can't be compiled is refused before it.
  if (last > Phase::Plan && target && failed(target->checkElementTypes(module())))
    return ExitCode::InputRefused;
  if (last > Phase::Plan && options.train.loss == training::LossKind::None &&
      failed(checkOutputs(module(), batch.perCall())))
    return ExitCode::InputRefused;
  return last == Phase::End ? resolveWeights() : ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

ExitCode Compilation::readPlan() {
  auto read = plan::planFromYaml(planText, options.plan, problem);
  if (!read)
    return fail(read.error());
  search.plan = *read;
  // Only what is whole can be predicted.
  std::vector<plan::Violation> violations = plan::verify(problem, search.plan, cluster);
  if (!violations.empty()) {
    const plan::Violation &first = violations.front(); // the others may follow from it
    std::string more = violations.size() > 1
                           ? " (and " + std::to_string(violations.size() - 1) + " more)" : "";
    std::string node = first.op >= 0 && !problem.ops[first.op].location.empty()
                           ? problem.ops[first.op].location + ": " : "";
    return fail({options.plan + ": " + node + first.message + more, 3});
  }
  search.predicted = plan::predict(problem, search.plan, cluster, workspace.get());
  search.pinned = true;
  return ExitCode::Done;
}

plan::SearchOptions Compilation::searchOptions(const plan::Spec &pins) const {
  plan::SearchOptions asked;
  asked.devices = options.devices;
  asked.spec = pins;
  // For CPUs `dtc plan` answers what `dtc compile` would do, unless it is asked
  // for what can't be compiled yet.
  bool compilable = target && plan::unimplemented(problem, spec).empty();
  asked.executable = !options.onlyPlan || compilable;
  asked.workspace = workspace.get();
  asked.fixedCalls = batch.numMicrobatches > 1;
  if (degreesOpen() && !options.globalBatch)
    asked.samplesPerRank = std::max<int64_t>(model.fileBatch, 1);
  return asked;
}

/// Only the first search of a run chooses; later ones repeat it on other calls.
void Compilation::explainSearch() {
  if (!options.explain || explanation)
    return;
  explanation = plan::explain(problem, cluster, searchOptions(given), search);
}

ExitCode Compilation::searchPlan(const plan::Spec &pins) {
  auto found = plan::search(problem, cluster, searchOptions(pins));
  if (!found)
    return fail(found.error());
  search = std::move(*found);
  return ExitCode::Done;
}

/// The plan of these degrees with the batch cut as they have it: starts again with it, as what
/// a call does is different with several of them (it adds to earlier gradients).
ExitCode Compilation::planCalls(const plan::Degrees &degrees, const BatchChoice &cut) {
  spec = plan::pinned(degrees, open);
  options.globalBatch = cut.globalBatch;
  batch = cut;
  if (ExitCode code = importBatch(batch.perCall()); code != ExitCode::Done)
    return code;
  if (ExitCode code = buildTraining(); code != ExitCode::Done)
    return code;
  if (ExitCode code = extractProblem(); code != ExitCode::Done)
    return code;
  return searchPlan(spec);
}

static double secondsPerSample(const plan::Degrees &degrees, const plan::Prediction &predicted) {
  return predicted.fits() ? predicted.stepSeconds / double(degrees.samples())
                          : std::numeric_limits<double>::infinity();
}

static bool isFaster(const plan::SearchResult::Alternative &a,
                     const plan::SearchResult::Alternative &b) {
  return secondsPerSample(a.degrees, a.predicted) < secondsPerSample(b.degrees, b.predicted);
}

/// With its calls as they will be, the chosen plan may be slower than was thought: then the
/// next one is looked at in the same way, until none is thought to be faster.
ExitCode Compilation::replan() {
  BatchChoice wanted{search.problem.globalBatch(), search.problem.numMicrobatches};
  // As files, which are of the calls as they will be, are compared with.
  bool isCompared = std::any_of(options.compare.begin(), options.compare.end(), isPlanFile);
  bool calls = !options.onlyPlan || !options.savePlan.empty() || isCompared ||
               plan::unimplemented(problem, search.plan).empty();
  if (wanted == batch || !calls) {
    problem = std::move(search.problem);
    return ExitCode::Done;
  }
  const BatchChoice whole = batch;
  plan::SearchResult first = std::move(search);
  std::vector<plan::SearchResult::Alternative> others = std::move(first.alternatives);
  open = spec;
  if (ExitCode code = planCalls(first.plan.degrees, wanted); code != ExitCode::Done)
    return code;
  while (!others.empty()) {
    auto next = std::min_element(others.begin(), others.end(), isFaster);
    plan::SearchResult::Alternative now{search.plan.degrees, search.predicted};
    if (!isFaster(*next, now))
      break;
    std::swap(*next, now);
    const plan::Degrees degrees = now.degrees;
    BatchChoice cut{degrees.samples(), degrees.numMicrobatches};
    if (ExitCode code = planCalls(degrees, cut); code != ExitCode::Done)
      return code;
  }
  std::stable_sort(others.begin(), others.end(), isFaster);
  if (search.plan.degrees != first.plan.degrees && explanation)
    if (ExitCode code = explainAgain(whole, others); code != ExitCode::Done)
      return code;
  problem = std::move(search.problem);
  search.alternatives = std::move(others);
  search.pinned = first.pinned;
  return ExitCode::Done;
}

/// Explains the plan that replaced the one searched first, as that was: in the calls of the
/// first search.
ExitCode Compilation::explainAgain(const BatchChoice &whole,
                                   const std::vector<plan::SearchResult::Alternative> &others) {
  const plan::Degrees degrees = search.plan.degrees;
  const BatchChoice cut = batch;
  if (ExitCode code = planCalls(degrees, whole); code != ExitCode::Done)
    return code;
  search.alternatives = others;
  spec = open;
  explanation.reset();
  explainSearch();
  return planCalls(degrees, cut);
}

ExitCode Compilation::extractProblem() {
  auto extracted = planbridge::extract(module());
  if (failed(extracted))
    return ExitCode::Failed;
  problem = std::move(*extracted);
  problem.model = options.model;
  problem.numMicrobatches = batch.numMicrobatches;
  problem.fileNodes = model.nodes;
  workspace = makeWorkspace();
  return ExitCode::Done;
}

ExitCode Compilation::makePlan() {
  auto start = std::chrono::steady_clock::now();
  if (ExitCode code = extractProblem(); code != ExitCode::Done)
    return code;
  bool file = hasPlanFile();
  if (ExitCode code = file ? readPlan() : searchPlan(given); code != ExitCode::Done)
    return code;
  explainSearch();
  if (!file)
    if (ExitCode code = replan(); code != ExitCode::Done)
      return code;
  planningSeconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!file && failed(planbridge::verify(module(), problem, search.plan, cluster)))
    return ExitCode::Failed;
  return ExitCode::Done;
}

ExitCode Compilation::planAndApply() {
  if (ExitCode code = makePlan(); code != ExitCode::Done)
    return code;
  // What cannot be compiled yet can be planned and written; `partition` refuses it. Stages with
  // meshes of their own don't fit into one module.
  bool writable = search.plan.degrees.groups.empty() &&
                  (!options.onlyPlan || plan::unimplemented(problem, search.plan).empty());
  if (!writable)
    return ExitCode::Done;
  return succeeded(planbridge::apply(module(), problem, search.plan)) ? ExitCode::Done
                                                                      : ExitCode::Failed;
}

} // namespace dtc::driver
