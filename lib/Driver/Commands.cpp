#include "Commands.h"

#include "ModelTraits.h"
#include "Planning/PlanAnswers.h"
#include "Planning/PlanFromSettings.h"

#include "dtc/Driver/WriteText.h"
#include "dtc/Report/Comparison.h"
#include "dtc/Report/Json.h"
#include "dtc/Report/PlanText.h"
#include "dtc/Report/PlanTrace.h"

#include <iostream>

namespace dtc::driver {

static Failure writeResult(const std::string &path, const plan::Result<std::string> &text) {
  return text ? writeText(path, *text) : Failure(fail(text.error()));
}

/// `--save-plan`, `--trace` and `--report`.
static Failure savePlan(const Request &request, const Planned &planned) {
  const Options &options = request.options;
  if (!options.savePlan.empty())
    if (Failure failure = writeText(options.savePlan, yamlOf(planned)))
      return failure;
  report::PlanFacts facts = factsOf(request, planned);
  if (!options.trace.empty())
    if (Failure failure = writeResult(options.trace, report::planTrace(facts)))
      return failure;
  if (options.report.empty())
    return std::nullopt;
  return writeResult(options.report, pageOf(request, planned));
}

static void warnOfPlan(const Request &request, const Planned &planned) {
  for (const std::string &warning : warningsOf(request, planned))
    printWarning(warning);
}

//===----------------------------------------------------------------------===//
// dtc compile
//===----------------------------------------------------------------------===//

/// `--emit`: the IR after a phase, to -o or stdout.
static Failure emit(const Options &options, mlir::ModuleOp module, std::ostream &out) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  if (!options.output.empty())
    return writeText(options.output, text);
  out << text;
  return std::nullopt;
}

/// The end of a compilation after a phase that gave no value, or after that of `--emit`.
template <typename Value>
static Failure endAfter(const Request &request, Outcome<Value> &value, const Answer &answer) {
  if (!value)
    return value.category();
  if constexpr (std::derived_from<Value, Planned>)
    if (Failure failure = savePlan(request, *value))
      return failure;
  if constexpr (std::derived_from<Value, Partitioned>)
    if (!value->verified.empty()) // beside IR on stdout it would be in the way
      std::cerr << value->verified << "\n";
  return emit(request.options, value->module(), answer.out);
}

/// What is told of a plan whose artifact has been written.
static Failure tellCompiled(const Request &request, const Partitioned &compiled,
                            std::ostream &out) {
  if (Failure failure = savePlan(request, compiled))
    return failure;
  if (!compiled.verified.empty())
    out << compiled.verified << "\n";
  warnOfPlan(request, compiled);
  out << report::planText(factsOf(request, compiled));
  return std::nullopt;
}

/// The process is about to end: taking apart the IR of a deep model, or its weights, first would
/// take as long as partitioning it.
template <typename Value> static void keepUntilTheEnd(Value value) {
  static std::vector<std::shared_ptr<void>> &kept = *new std::vector<std::shared_ptr<void>>;
  kept.push_back(std::make_shared<Value>(std::move(value)));
}

/// The way of a model, phase by phase, up to that of `--emit`.
static Failure compile(Environment &env, const Options &options, const Answer &answer) {
  auto request = readRequest(options);
  if (!request)
    return request.category();
  auto file = openModel(env, options);
  if (!file)
    return file.category();
  auto imported = importModel(*request, **file);
  if (!imported || options.until == Phase::Import)
    return endAfter(*request, imported, answer);

  std::map<std::string, std::string> computed;
  if (options.until == Phase::End)
    computed = computedTraitsOf(imported->model);
  auto trained =
      buildTraining(request->options, std::move(*imported), slotsFor(*request, request->spec));
  if (!trained || options.until == Phase::Train)
    return endAfter(*request, trained, answer);

  request->cluster.software.flashAttention.reset(); // the program is dtc's own
  auto weights = prepareToCompile(env, options, *trained);
  if (!weights)
    return weights.category();
  auto planned = makePlan(env, *request, **file, std::move(*trained));
  if (!planned || options.until == Phase::Plan)
    return endAfter(*request, planned, answer);

  auto partitioned = partition(options, std::move(*planned));
  if (!partitioned || options.until == Phase::Partition)
    return endAfter(*request, partitioned, answer);

  auto scheduled = schedule(env, options, std::move(*partitioned));
  if (!scheduled || options.until == Phase::Schedule)
    return endAfter(*request, scheduled, answer);

  if (options.until == Phase::Lower) {
    auto lowered = lower(std::move(*scheduled));
    return endAfter(*request, lowered, answer);
  }
  scheduled->traits.merge(computed);
  if (Failure failure = package(env, options, *scheduled, *weights))
    return failure;
  Failure failure = tellCompiled(*request, *scheduled, answer.out);
  if (answer.processEnds) {
    keepUntilTheEnd(std::move(*scheduled));
    keepUntilTheEnd(std::move(*weights));
  }
  return failure;
}

Failure compile(const Options &options, const Answer &answer) {
  auto env = std::make_unique<Environment>(options);
  Failure failure = compile(*env, options, answer);
  if (answer.processEnds)
    keepUntilTheEnd(std::move(env));
  return failure;
}

//===----------------------------------------------------------------------===//
// dtc plan
//===----------------------------------------------------------------------===//

/// `--compare`: two plans of one model, planned one after the other.
static Failure comparePlans(Environment &env, Options options, std::ostream &out) {
  std::vector<Request> requests;
  std::vector<Planned> plans;
  std::unique_ptr<import::ModelFile> file;
  for (const std::string &spec : options.compare) {
    options.plan = spec;
    auto request = readRequest(options);
    if (!request)
      return request.category();
    if (!file) {
      auto opened = openModel(env, options);
      if (!opened)
        return opened.category();
      file = std::move(*opened);
    }
    auto planned = planModel(env, *request, *file);
    if (!planned)
      return planned.category();
    requests.push_back(std::move(*request));
    plans.push_back(std::move(*planned));
  }
  report::Compared a{options.compare[0], factsOf(requests[0], plans[0])};
  report::Compared b{options.compare[1], factsOf(requests[1], plans[1])};
  if (options.json)
    out << report::comparisonJson(a, b).dump(2) << "\n";
  else
    out << report::comparisonText(a, b);
  return std::nullopt;
}

/// `--save-settings`.
static Failure saveSettings(const Request &request, const Planned &planned) {
  if (request.options.saveSettings.empty())
    return std::nullopt;
  const report::ToolPlan tool = toolPlanOf(request, planned);
  return writeText(request.options.saveSettings,
                   settingsText(tool.preset, tool.facts, tool.settings, /*isFile=*/true));
}

Failure planOnly(Options options, const Answer &answer) {
  options.onlyPlan = true;
  Environment env(options);
  if (!options.planFrom.empty())
    return planFromSettings(env, std::move(options), answer.out);
  if (!options.compare.empty())
    return comparePlans(env, std::move(options), answer.out);
  auto request = readRequest(options);
  if (!request)
    return request.category();
  auto file = openModel(env, options);
  if (!file)
    return file.category();
  auto planned = planModel(env, *request, **file);
  if (!planned)
    return planned.category();
  Outcome<Subjects> subjects = Subjects();
  if (!options.explainName.empty())
    subjects = explainName(*request, *planned, options.explainName);
  if (!subjects)
    return subjects.category();
  if (Failure failure = savePlan(*request, *planned))
    return failure;
  if (Failure failure = saveSettings(*request, *planned))
    return failure;
  warnOfPlan(*request, *planned);
  auto tell = options.json ? planJson : planText;
  answer.out << tell(*request, *planned, *subjects);
  return std::nullopt;
}

} // namespace dtc::driver
