// The phase plan: searches, cuts the batch into microbatches, and writes the plan into the IR.
//
// What a search takes for granted may turn out otherwise. Then there is another one:
//
//     what is searched                    why                                         where
//     with what saves memory              plans without it don't fit, or hardly       FreeSearch.h
//     for the batch of the fastest plan   nobody gave one                             fastestBatch
//     other plans in their calls          these make the best one slower, or too big  Calls.h
//     with ever less memory               none of them fits in its calls              Calls.h
//     without a cut of the batch          the model isn't one of fewer samples        searchPlan
//     padded for a degree of tp           it doesn't divide heads or features         Padding.h
//     with fewer slots for experts        no plan fits; only told in the error        Capacity.h
#include "Calls.h"
#include "Capacity.h"
#include "FreeSearch.h"
#include "Padding.h"
#include "WholeAttention.h"

#include "dtc/Driver/Diagnostics.h"
#include "dtc/Plan/Plan/SharedRows.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Search/Remedy.h"
#include "dtc/PlanBridge/PlanBridge.h"
#include "dtc/Report/Failure.h"

#include <algorithm>
#include <chrono>

using namespace mlir;

namespace dtc::driver {

namespace {

/// What was said while several plans were made. An error is told where there is no plan at all.
class Said {
public:
  template <typename Make> auto during(Make make) {
    DiagnosticScope scope(
        [&](Severity severity, const std::string &line) { lines.emplace_back(severity, line); });
    return make();
  }

  void tell(bool withErrors) const {
    for (const auto &[severity, line] : lines)
      if (withErrors || severity == Severity::Warning)
        say(severity, line);
  }

  /// Why another plan was made.
  void tellAsWarnings() const {
    for (const auto &[severity, line] : lines)
      say(Severity::Warning, line);
  }

private:
  std::vector<std::pair<Severity, std::string>> lines;
};

} // namespace

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Whether the plan is wanted for its calls as they will be, not as they were searched.
static bool needsCalls(const Request &request, const Candidate &whole) {
  const Options &options = request.options;
  BatchChoice wanted{whole.search.problem.globalBatch(), whole.search.problem.numMicrobatches};
  if (wanted == whole.step.batch)
    return false;
  // As files, which are of the calls as they will be, are compared with.
  bool isCompared = std::any_of(options.compare.begin(), options.compare.end(), isPlanFile);
  return !options.onlyPlan || isCompared ||
         plan::whyRowsStayWhole(whole.problem, whole.search.plan.degrees).empty();
}

/// Explains the plan that replaced the one searched first, as that was: in the calls of the
/// first search.
static Outcome<plan::Explanation> explainReplaced(const Planner &planner, const Candidate &whole,
                                                  const plan::SearchResult &best) {
  const Request &request = planner.request;
  auto inWhole = searchPinned(planner, whole, best.plan.degrees);
  if (!inWhole)
    return fail(inWhole.error());
  inWhole->alternatives = best.alternatives;
  return plan::explain(whole.problem, request.cluster, searchOptions(planner, whole, request.given),
                       *inWhole);
}

static Planned planned(Candidate candidate, std::optional<plan::Explanation> explanation) {
  return {std::move(candidate.step), std::move(candidate.problem), std::move(candidate.workspace),
          std::move(candidate.search), std::move(explanation)};
}

/// A file is about calls as they will be, and the plan is still the one that was searched. So what
/// is written doesn't change the answer.
static Failure addPlanToSave(const Planner &planner, Planned &planned) {
  const plan::Degrees &degrees = planned.search.plan.degrees;
  BatchChoice cut{degrees.samples(), degrees.numMicrobatches};
  const Options &options = planner.request.options;
  bool isKept = options.keepsPlan || !options.savePlan.empty();
  if (!isKept || cut == planned.batch)
    return std::nullopt;
  auto inCalls = cutCalls(planner, degrees, cut);
  if (!inCalls)
    return inCalls.category();
  auto found = searchPinned(planner, *inCalls, degrees);
  if (!found)
    return fail(found.error());
  planned.toSave = {std::move(found->plan), std::move(found->problem)};
  return std::nullopt;
}

/// The best plan of the step in one call.
static Outcome<plan::SearchResult> searchStep(const Planner &planner, const Candidate &whole,
                                              const plan::SearchOptions &asked) {
  const plan::Cluster &cluster = planner.request.cluster;
  auto found = searchFreely(planner, whole, asked, cluster);
  plan::adviseOn(found, whole.problem, cluster, asked);
  if (!found)
    return fail(withCapacity(planner, whole, found.error()));
  return std::move(*found);
}

/// A plan that is pinned in full is found although it doesn't fit. No program is made of it.
static Failure checkMemory(const Planner &planner, const Candidate &whole,
                           const plan::SearchOptions &asked, const plan::SearchResult &search) {
  const Options &options = planner.request.options;
  if (search.predicted.fits() || options.onlyPlan || options.until <= Phase::Plan)
    return std::nullopt;
  plan::ClosestPlan closest{search.plan.degrees, search.predicted};
  if (planner.tellsFailure)
    closest.remedy = plan::findRemedy(whole.problem, planner.request.cluster, asked);
  return fail(withCapacity(planner, whole, closest));
}

/// The best plan, its degrees and microbatches included. The problem is for the samples of one of
/// its calls. What can't be cut is planned whole.
static Outcome<Planned> searchPlan(const Planner &planner, Candidate whole, bool mayCut = true) {
  const Request &request = planner.request;
  plan::SearchOptions asked = firstOptions(planner, whole);
  asked.fixedCalls |= !mayCut;
  auto found = searchStep(planner, whole, asked);
  if (!found)
    return found.category();
  whole.search = std::move(*found);
  std::optional<plan::Explanation> explanation;
  if (request.options.explain || request.explainsSettings())
    explanation = plan::explain(whole.problem, request.cluster, asked, whole.search);
  if (!needsCalls(request, whole)) {
    if (Failure failure = checkMemory(planner, whole, asked, whole.search))
      return *failure;
    whole.problem = std::move(whole.search.problem);
    Planned result = planned(std::move(whole), std::move(explanation));
    if (Failure failure = addPlanToSave(planner, result))
      return *failure;
    return result;
  }
  Said said;
  auto best = said.during([&] { return planInCalls(planner, whole, asked); });
  const bool isRefused = !best && best.category() == ErrorCategory::InputRefused;
  if (isRefused && mayCut && !request.spec.microBatch) {
    said.tellAsWarnings();
    return searchPlan(planner, std::move(whole), /*mayCut=*/false);
  }
  said.tell(/*withErrors=*/true);
  if (!best)
    return best.category();
  if (Failure failure = checkMemory(planner, whole, asked, best->search))
    return *failure;
  if (explanation && best->search.plan.degrees != whole.search.plan.degrees) {
    auto other = explainReplaced(planner, whole, best->search);
    if (!other)
      return other.category();
    explanation = std::move(*other);
  }
  best->problem = std::move(best->search.problem);
  return planned(std::move(*best), std::move(explanation));
}

/// The global batch of the plan that is fastest a sample, where each rank brings the samples of the
/// file.
static Outcome<int64_t> fastestBatch(const Planner &planner, const Candidate &whole) {
  auto found = searchStep(planner, whole, firstOptions(planner, whole));
  if (!found)
    return found.category();
  return found->plan.degrees.samples();
}

//===----------------------------------------------------------------------===//
// A plan file
//===----------------------------------------------------------------------===//

static Outcome<Planned> readPlan(const Planner &planner, Candidate candidate) {
  const Request &request = planner.request;
  const std::string &path = request.options.plan;
  const plan::Problem &problem = candidate.problem;
  auto read = plan::planFromYaml(request.planText, path, problem);
  if (!read)
    return fail(read.error());
  plan::SearchResult &search = candidate.search;
  search.plan = *read;
  // Only what is whole can be predicted.
  std::vector<plan::Violation> violations = plan::verify(problem, search.plan, request.cluster);
  if (!violations.empty()) {
    const plan::Violation &first = violations.front(); // the others may follow from it
    std::string more =
        violations.size() > 1 ? " (and " + std::to_string(violations.size() - 1) + " more)" : "";
    std::string node = first.op >= 0 && !problem.ops[first.op].location.empty()
                           ? problem.ops[first.op].location + ": "
                           : "";
    return fail({path + ": " + node + first.message + more +
                 "; where an edit leaves other parts as they were, keep the part plan: alone, and "
                 "the rest is planned anew"});
  }
  search.predicted =
      plan::predict(problem, search.plan, request.cluster, candidate.workspace.get());
  search.pinned = true;
  plan::SearchOptions asked = firstOptions(planner, candidate);
  std::optional<plan::Explanation> explanation;
  if (request.options.explain)
    explanation = plan::explain(problem, request.cluster, asked, search);
  asked.spec = plan::pinned(search.plan.degrees, request.spec);
  if (Failure failure = checkMemory(planner, candidate, asked, search))
    return *failure;
  return planned(std::move(candidate), std::move(explanation));
}

//===----------------------------------------------------------------------===//
// The phase
//===----------------------------------------------------------------------===//

/// The plan of a step. `tellsFailure` as the planner has it.
static Outcome<Planned> planStep(Environment &env, const Request &request,
                                 const import::ModelFile &file, Trained trained,
                                 bool tellsFailure = true) {
  Request closed = request;
  Planner planner{env, closed, file, tellsFailure};
  auto whole = prepare(planner, std::move(trained));
  if (!whole)
    return whole.category();
  if (request.isBatchOpen() && !request.globalBatch) {
    // Who types that batch gets the same plan.
    auto samples = fastestBatch(planner, *whole);
    if (!samples)
      return samples.category();
    closed.globalBatch = *samples;
    auto step = importForTraining(closed, file);
    if (!step)
      return step.category();
    whole = prepare(planner, std::move(*step));
    if (!whole)
      return whole.category();
  }
  auto result = request.hasPlanFile() ? readPlan(planner, std::move(*whole))
                                      : searchPlan(planner, std::move(*whole));
  if (!result)
    return result;
  result->paddedSamples = request.paddedSamples;
  if (std::string idle = report::idleStagesText(result->problem, result->search); !idle.empty())
    return fail(plan::Error{idle});
  const plan::Plan &plan = result->search.plan;
  if (!request.hasPlanFile() &&
      failed(planbridge::verify(result->module(), result->problem, plan, request.cluster)))
    return ErrorCategory::Failed;
  if (std::string why = plan::whyRowsStayWhole(result->problem, plan.degrees); !why.empty()) {
    if (request.options.onlyPlan) // for another machine
      return result;
    return fail({"this plan can't be compiled: " + why, ErrorCategory::Usage});
  }
  if (failed(planbridge::apply(result->module(), result->problem, plan)))
    return ErrorCategory::Failed;
  keepWholeAttention(result->module(), *env.target);
  return result;
}

/// The fastest of the plans of the step as it is, and padded.
static Outcome<Planned> planFastest(Environment &env, const Request &request,
                                    const std::vector<Request> &padded,
                                    const import::ModelFile &file, Trained trained) {
  auto sameShapes = [&, shapes = shapesOf(trained)](Trained &step) {
    return shapesOf(step) == shapes;
  };
  Said said;
  auto best = said.during([&] { return planStep(env, request, file, std::move(trained)); });
  const bool isTried = !best || request.spec.tp || mayGain(*best);
  for (const Request &other : isTried ? padded : std::vector<Request>()) {
    Said ofOther;
    auto planned = ofOther.during([&]() -> Outcome<Planned> {
      // What it warns of was said as the model was imported first.
      auto step = Said().during([&] { return importForTraining(other, file); });
      if (!step || sameShapes(*step)) // nothing could be padded
        return ErrorCategory::Failed;
      return planStep(env, other, file, std::move(*step), /*tellsFailure=*/false);
    });
    if (!planned || (best && !isFaster(chosenIn(planned->search), chosenIn(best->search))))
      continue;
    tellAsAsked(request, best ? &*best : nullptr, *planned);
    best = std::move(planned);
    said = std::move(ofOther);
  }
  said.tell(/*withErrors=*/!best);
  return best;
}

Outcome<Planned> makePlan(Environment &env, const Request &request, const import::ModelFile &file,
                          Trained trained) {
  auto start = std::chrono::steady_clock::now();
  if (std::string wrong = wrongPadding(request, trained); !wrong.empty())
    return fail(plan::Error{wrong, ErrorCategory::InputRefused});
  const std::vector<Request> padded = withPadding(request, trained);
  auto result = padded.empty() ? planStep(env, request, file, std::move(trained))
                               : planFastest(env, request, padded, file, std::move(trained));
  if (!result)
    return result;
  result->padded = paddedIn(*result);
  result->planningSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace dtc::driver
