#include "Commands.h"

#include "Phases.h"
#include "WriteText.h"

#include "dtc/Report/Explanation.h"
#include "dtc/Report/Json.h"
#include "dtc/Report/PlanText.h"
#include "dtc/Report/PlanTrace.h"
#include "dtc/Report/Report.h"

#include "llvm/Support/Base64.h"
#include "llvm/Support/SHA256.h"

#include <iostream>

namespace dtc::driver {

static report::PlanFacts factsOf(const Request &request, const Planned &planned) {
  return {planned.problem,         planned.search,          request.cluster,
          request.options.devices, planned.planningSeconds, planned.workspace.get()};
}

/// `--report`: what it takes to allow the page its own style sheet alone.
static std::string digest(const std::string &text) {
  return llvm::encodeBase64(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)));
}

static ExitCode writeResult(const std::string &path, const plan::Result<std::string> &text) {
  return text ? writeText(path, *text) : fail(text.error());
}

/// `--save-plan`, `--trace` and `--report`.
static ExitCode savePlan(const Request &request, const Planned &planned) {
  const Options &options = request.options;
  if (!options.savePlan.empty()) {
    std::string text = plan::toYaml(planned.search.plan, planned.problem);
    if (ExitCode code = writeText(options.savePlan, text); code != ExitCode::Done)
      return code;
  }
  report::PlanFacts facts = factsOf(request, planned);
  if (!options.trace.empty())
    if (ExitCode code = writeResult(options.trace, report::planTrace(facts));
        code != ExitCode::Done)
      return code;
  if (options.report.empty())
    return ExitCode::Done;
  const std::optional<plan::Explanation> &explanation = planned.explanation;
  return writeResult(options.report, report::reportPage(facts, digest,
                                                        explanation ? &*explanation : nullptr));
}

static void warnOfPlan(const report::PlanFacts &facts, const Options &options) {
  bool isBf16 = options.train.precision == training::Precision::BF16;
  for (const std::string &warning : report::planWarnings(facts, isBf16))
    printWarning(warning);
}

//===----------------------------------------------------------------------===//
// dtc compile
//===----------------------------------------------------------------------===//

/// `--emit`: the IR after a phase, to -o or stdout.
static ExitCode emit(const Options &options, mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  if (!options.output.empty())
    return writeText(options.output, text);
  std::cout << text;
  return ExitCode::Done;
}

/// The end of a compilation after a phase that gave no value, or after that of `--emit`.
template <typename Value> static ExitCode endAfter(const Request &request, Outcome<Value> &value) {
  if (!value)
    return value.code();
  if constexpr (std::derived_from<Value, Planned>)
    if (ExitCode code = savePlan(request, *value); code != ExitCode::Done)
      return code;
  if constexpr (std::derived_from<Value, Partitioned>)
    if (!value->verified.empty()) // beside IR on stdout it would be in the way
      std::cerr << value->verified << "\n";
  return emit(request.options, value->module());
}

/// What is told of a plan whose artifact has been written.
static ExitCode tellCompiled(const Request &request, const Partitioned &compiled) {
  if (ExitCode code = savePlan(request, compiled); code != ExitCode::Done)
    return code;
  if (!compiled.verified.empty())
    std::cout << compiled.verified << "\n";
  report::PlanFacts facts = factsOf(request, compiled);
  warnOfPlan(facts, request.options);
  std::cout << report::planText(facts);
  return ExitCode::Done;
}

/// The process is about to end: taking apart the IR of a deep model, or its weights, first would
/// take as long as partitioning it.
template <typename Value> static void keepUntilTheEnd(Value value) {
  static std::vector<std::shared_ptr<void>> &kept = *new std::vector<std::shared_ptr<void>>;
  kept.push_back(std::make_shared<Value>(std::move(value)));
}

/// The way of a model, phase by phase, up to that of `--emit`.
static ExitCode compile(Environment &env, const Options &options) {
  auto request = readRequest(options);
  if (!request)
    return request.code();
  auto file = openModel(env, options);
  if (!file)
    return file.code();
  auto imported = importModel(*request, **file);
  if (!imported || options.until == Phase::Import)
    return endAfter(*request, imported);

  auto trained = buildTraining(options, std::move(*imported));
  if (!trained || options.until == Phase::Train)
    return endAfter(*request, trained);

  auto weights = prepareToCompile(env, options, *trained);
  if (!weights)
    return weights.code();
  auto planned = makePlan(env, *request, **file, std::move(*trained));
  if (!planned || options.until == Phase::Plan)
    return endAfter(*request, planned);

  auto partitioned = partition(options, std::move(*planned));
  if (!partitioned || options.until == Phase::Partition)
    return endAfter(*request, partitioned);

  auto scheduled = schedule(env, options, std::move(*partitioned));
  if (!scheduled || options.until == Phase::Schedule)
    return endAfter(*request, scheduled);

  if (options.until == Phase::Lower) {
    auto lowered = lower(std::move(*scheduled));
    return endAfter(*request, lowered);
  }
  if (ExitCode code = package(env, options, *scheduled, *weights); code != ExitCode::Done)
    return code;
  ExitCode code = tellCompiled(*request, *scheduled);
  keepUntilTheEnd(std::move(*scheduled));
  keepUntilTheEnd(std::move(*weights));
  return code;
}

ExitCode compile(const Options &options) {
  auto env = std::make_unique<Environment>(options);
  ExitCode code = compile(*env, options);
  keepUntilTheEnd(std::move(env));
  return code;
}

//===----------------------------------------------------------------------===//
// dtc plan
//===----------------------------------------------------------------------===//

/// The phases up to the plan.
static Outcome<Planned> planModel(Environment &env, const Request &request,
                                  const import::ModelFile &file) {
  auto imported = importModel(request, file);
  if (!imported)
    return imported.code();
  auto trained = buildTraining(request.options, std::move(*imported));
  if (!trained)
    return trained.code();
  return makePlan(env, request, file, std::move(*trained));
}

/// `--compare`: two plans of one model, planned one after the other.
static ExitCode comparePlans(Environment &env, Options options) {
  std::vector<Request> requests;
  std::vector<Planned> plans;
  std::unique_ptr<import::ModelFile> file;
  for (const std::string &spec : options.compare) {
    options.plan = spec;
    auto request = readRequest(options);
    if (!request)
      return request.code();
    if (!file) {
      auto opened = openModel(env, options);
      if (!opened)
        return opened.code();
      file = std::move(*opened);
    }
    auto planned = planModel(env, *request, *file);
    if (!planned)
      return planned.code();
    requests.push_back(std::move(*request));
    plans.push_back(std::move(*planned));
  }
  report::Compared a{options.compare[0], factsOf(requests[0], plans[0])};
  report::Compared b{options.compare[1], factsOf(requests[1], plans[1])};
  if (options.json)
    std::cout << report::comparisonJson(a, b).dump(2) << "\n";
  else
    std::cout << report::comparisonText(a, b);
  return ExitCode::Done;
}

/// `--explain=NAME`; without it, nothing.
static Outcome<std::vector<plan::ShardingExplanation>> explainName(const Request &request,
                                                                   const Planned &planned) {
  const std::string &name = request.options.explainName;
  if (name.empty())
    return std::vector<plan::ShardingExplanation>();
  const plan::SearchResult &search = planned.search;
  auto found = plan::explainSharding(planned.problem, search.plan, search.predicted,
                                     request.cluster, search.solver, name, planned.workspace.get());
  if (!found)
    return fail(found.error());
  return std::move(*found);
}

/// What `dtc plan` prints.
static std::string answer(const Options &options, const report::PlanFacts &facts,
                          const std::optional<plan::Explanation> &explanation,
                          const std::vector<plan::ShardingExplanation> &subjects) {
  if (options.json) {
    nlohmann::ordered_json json = report::planJson(facts);
    if (explanation)
      json["explanation"] = report::explanationJson(*explanation);
    if (!subjects.empty())
      json["explanation"]["subject"] = report::subjectJson(subjects);
    return json.dump(2) + "\n";
  }
  std::string text = report::planText(facts);
  if (explanation)
    text += report::explanationText(*explanation);
  if (!subjects.empty())
    text += report::subjectText(subjects, facts.search.plan.degrees);
  return text;
}

ExitCode planOnly(Options options) {
  options.onlyPlan = true;
  Environment env(options);
  if (!options.compare.empty())
    return comparePlans(env, std::move(options));
  auto request = readRequest(options);
  if (!request)
    return request.code();
  auto file = openModel(env, options);
  if (!file)
    return file.code();
  auto planned = planModel(env, *request, **file);
  if (!planned)
    return planned.code();
  auto subjects = explainName(*request, *planned);
  if (!subjects)
    return subjects.code();
  if (ExitCode code = savePlan(*request, *planned); code != ExitCode::Done)
    return code;
  report::PlanFacts facts = factsOf(*request, *planned);
  warnOfPlan(facts, options);
  std::cout << answer(options, facts, planned->explanation, *subjects);
  return ExitCode::Done;
}

} // namespace dtc::driver
