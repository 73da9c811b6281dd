#include "Candidate.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Kernels/KernelFormation.h"
#include "dtc/Lower/PartialFunction.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/PlanBridge/LocalWorkspace.h"
#include "dtc/PlanBridge/PlanBridge.h"
#include "dtc/Report/Failure.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace dtc::driver {

static double secondsPerSample(const plan::Alternative &of) {
  return of.predicted.fits() ? of.predicted.stepSeconds / double(of.degrees.samples())
                             : std::numeric_limits<double>::infinity();
}

bool isFaster(const plan::Alternative &a, const plan::Alternative &b) {
  return secondsPerSample(a) < secondsPerSample(b);
}

plan::Alternative chosenIn(const plan::SearchResult &search) {
  return {search.plan.degrees, search.predicted};
}

Outcome<plan::Problem> extractProblem(const Environment &env, const Options &options,
                                      Trained &trained) {
  auto staysWhole = [&](Operation *op) { return env.target->staysWhole(op); };
  auto isPart = [&](Operation *op) { return kernels::isPartOfProduct(op, *env.target); };
  auto isWidened = [&](Operation *op) { return kernels::isWidened(op, *env.target); };
  auto workspace = [&](Operation *op) { return env.target->attentionWorkspace(op); };
  auto extracted = planbridge::extract(
      trained.module(),
      {staysWhole, workspace, isPart, env.target->attentionAlignment(), isWidened});
  if (failed(extracted))
    return ErrorCategory::Failed;
  plan::Problem problem = std::move(*extracted);
  problem.model = options.modelName.empty() ? options.model : options.modelName;
  problem.numMicrobatches = trained.batch.numMicrobatches;
  problem.fileNodes = trained.model.nodes;
  return problem;
}

/// Ops are scheduled alone as the program will be. Plans for many GPUs, which are made in seconds,
/// do without. What predictions set aside for libraries isn't counted again.
static std::unique_ptr<plan::Workspace> makeWorkspace(Environment &env, const Request &request,
                                                      ModuleOp module) {
  const Options &options = request.options;
  if (options.onlyPlan && options.target == Target::CUDA)
    return nullptr;
  const double reserve = plan::CostModel(request.cluster, options.devices).reserve(0).workspace;
  auto measure = [&env, threads = options.threadsPerRank, setAside = std::llround(reserve)](
                     ModuleOp alone, const plan::OpPlaces &places) -> FailureOr<int64_t> {
    PassManager manager(&env.context);
    manager.addPass(lower::createBuildSchedule({.microbatches = 1}));
    if (failed(kernels::formKernels(alone, *env.target)) || failed(manager.run(alone)))
      return failure();
    return lower::bytesWithinFunction(alone, threads, static_cast<uint64_t>(setAside),
                                      {places.spent, places.apart});
  };
  return std::make_unique<planbridge::LocalWorkspace>(module, measure);
}

Outcome<Candidate> prepare(const Planner &planner, Trained step) {
  auto problem = extractProblem(planner.env, planner.request.options, step);
  if (!problem)
    return problem.category();
  auto workspace = makeWorkspace(planner.env, planner.request, step.module());
  return Candidate{std::move(step), std::move(*problem), std::move(workspace)};
}

/// Whether the step replaces buffers, as batch norms in training mode do.
static bool changesBuffers(const Trained &step) {
  ModuleOp module = *step.model.module;
  func::FuncOp function = graph::findFunction(module, graph::kLossAndGrads);
  for (unsigned i = 0; function && i < function.getNumResults(); ++i)
    if (graph::getResultRole(function, i).getKind() == graph::RoleKind::Buffer)
      return true;
  return false;
}

plan::SearchOptions searchOptions(const Planner &planner, const Candidate &candidate,
                                  const plan::Spec &pins) {
  const Options &options = planner.request.options;
  plan::SearchOptions asked;
  asked.devices = options.devices;
  asked.spec = pins;
  if (const plan::Preset *preset = planner.request.preset)
    asked.abilities = plan::abilitiesOn(*preset, planner.request.cluster, options.devices);
  // For CPUs `dtc plan` answers what `dtc compile` would do.
  asked.executable = !options.onlyPlan || options.target == Target::CPU;
  asked.workspace = candidate.workspace.get();
  asked.adviseOtherwise = planner.tellsFailure;
  // Of how many samples statistics are is the user's to say: by default those of all.
  asked.fixedCalls = candidate.step.batch.numMicrobatches > 1 ||
                     (changesBuffers(candidate.step) && !pins.microBatch);
  return asked;
}

plan::SearchOptions firstOptions(const Planner &planner, const Candidate &candidate) {
  const Request &request = planner.request;
  plan::SearchOptions asked = searchOptions(planner, candidate, request.given);
  if (request.isBatchOpen() && !request.globalBatch)
    asked.samplesPerRank = std::max<int64_t>(candidate.step.model.fileBatch, 1);
  return asked;
}

ErrorCategory fail(const plan::SearchFailure &failure) {
  return fail(plan::Error{report::failureText(failure), failure.category});
}

plan::SearchOutcome searchPinned(const Planner &planner, const Candidate &candidate,
                                 const plan::Degrees &degrees) {
  plan::Spec spec = plan::pinned(degrees, planner.request.spec);
  return plan::search(candidate.problem, planner.request.cluster,
                      searchOptions(planner, candidate, spec));
}

Outcome<Candidate> cutCalls(const Planner &planner, const plan::Degrees &degrees,
                            const BatchChoice &cut) {
  auto model = planner.file.import(samplesIn(planner.request, cut));
  if (failed(model))
    return ErrorCategory::InputRefused;
  auto step = buildTraining(planner.request.options, Imported{std::move(*model), cut},
                            slotsFor(planner.request, degrees));
  if (!step)
    return step.category();
  return prepare(planner, std::move(*step));
}

} // namespace dtc::driver
