#include "Commands.h"

#include "Compilation.h"
#include "Diagnostics.h"
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

static report::PlanFacts factsOf(const Compilation &compilation, const plan::Cluster &cluster) {
  return {compilation.getProblem(), compilation.getSearch(), cluster,
          compilation.getOptions().devices, compilation.getPlanningSeconds(),
          compilation.getWorkspace()};
}

/// `--report`: what it takes to allow the page its own style sheet alone.
static std::string digest(const std::string &text) {
  return llvm::encodeBase64(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)));
}

static ExitCode writeResult(const std::string &path, const plan::Result<std::string> &text) {
  if (text)
    return writeText(path, *text);
  printError(text.error().message);
  return ExitCode(text.error().exitCode);
}

/// `--save-plan`, `--trace` and `--report`.
static ExitCode savePlan(const Compilation &compilation) {
  const Options &options = compilation.getOptions();
  if (!options.savePlan.empty()) {
    std::string text = plan::toYaml(compilation.getSearch().plan, compilation.getProblem());
    if (ExitCode code = writeText(options.savePlan, text); code != ExitCode::Done)
      return code;
  }
  report::PlanFacts facts = factsOf(compilation, compilation.getCluster());
  if (!options.trace.empty())
    if (ExitCode code = writeResult(options.trace, report::planTrace(facts));
        code != ExitCode::Done)
      return code;
  if (options.report.empty())
    return ExitCode::Done;
  const std::optional<plan::Explanation> &explanation = compilation.getExplanation();
  return writeResult(options.report, report::reportPage(facts, digest,
                                                        explanation ? &*explanation : nullptr));
}

/// `--emit`: the IR after a phase, to -o or stdout.
static ExitCode emit(Compilation &compilation) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  compilation.module().print(stream);
  const std::string &output = compilation.getOptions().output;
  if (!output.empty())
    return writeText(output, text);
  std::cout << text;
  return ExitCode::Done;
}

/// The process is about to end: taking the IR of a deep model apart first would take as long as
/// partitioning it.
static void keepUntilTheEnd(std::unique_ptr<Compilation> compilation) {
  static std::vector<std::unique_ptr<Compilation>> &kept =
      *new std::vector<std::unique_ptr<Compilation>>;
  kept.push_back(std::move(compilation));
}

static void warnOfPlan(const report::PlanFacts &facts, const Options &options) {
  bool isBf16 = options.train.precision == training::Precision::BF16;
  for (const std::string &warning : report::planWarnings(facts, isBf16))
    printWarning(warning);
}

ExitCode compile(const Options &options) {
  auto owned = std::make_unique<Compilation>(options);
  Compilation &compilation = *owned;
  if (ExitCode code = compilation.run(options.until); code != ExitCode::Done)
    return code;
  if (options.until >= Phase::Plan)
    if (ExitCode code = savePlan(compilation); code != ExitCode::Done)
      return code;
  // Beside IR on stdout it would be in the way.
  if (!compilation.getVerified().empty())
    (options.until == Phase::End ? std::cout : std::cerr) << compilation.getVerified() << "\n";
  if (options.until != Phase::End)
    return emit(compilation);
  report::PlanFacts facts = factsOf(compilation, compilation.getCluster());
  warnOfPlan(facts, options);
  std::cout << report::planText(facts);
  keepUntilTheEnd(std::move(owned));
  return ExitCode::Done;
}

/// `--compare`: two plans of one model, planned one after the other.
static ExitCode comparePlans(Options options) {
  std::vector<std::unique_ptr<Compilation>> plans;
  for (const std::string &spec : options.compare) {
    options.plan = spec;
    plans.push_back(std::make_unique<Compilation>(options));
    if (ExitCode code = plans.back()->run(Phase::Plan); code != ExitCode::Done)
      return code;
  }
  auto compared = [&](size_t i) {
    return report::Compared{options.compare[i], factsOf(*plans[i], plans[i]->getCluster())};
  };
  report::Compared a = compared(0), b = compared(1);
  if (options.json)
    std::cout << report::comparisonJson(a, b).dump(2) << "\n";
  else
    std::cout << report::comparisonText(a, b);
  return ExitCode::Done;
}

/// `--explain=NAME`; without it, nothing.
static ExitCode explainName(const Compilation &compilation,
                            std::vector<plan::ShardingExplanation> &subjects) {
  const std::string &name = compilation.getOptions().explainName;
  if (name.empty())
    return ExitCode::Done;
  const plan::SearchResult &search = compilation.getSearch();
  auto found = plan::explainSharding(compilation.getProblem(), search.plan, search.predicted,
                                    compilation.getCluster(), search.solver, name,
                                    compilation.getWorkspace());
  if (found) {
    subjects = std::move(*found);
    return ExitCode::Done;
  }
  printError(found.error().message);
  return ExitCode(found.error().exitCode);
}

ExitCode planOnly(Options options) {
  options.onlyPlan = true;
  if (!options.compare.empty())
    return comparePlans(std::move(options));
  Compilation compilation(options);
  if (ExitCode code = compilation.run(Phase::Plan); code != ExitCode::Done)
    return code;
  std::vector<plan::ShardingExplanation> subjects;
  if (ExitCode code = explainName(compilation, subjects); code != ExitCode::Done)
    return code;
  if (ExitCode code = savePlan(compilation); code != ExitCode::Done)
    return code;
  report::PlanFacts facts = factsOf(compilation, compilation.getCluster());
  warnOfPlan(facts, options);
  const std::optional<plan::Explanation> &explanation = compilation.getExplanation();
  if (options.json) {
    nlohmann::ordered_json answer = report::planJson(facts);
    if (explanation)
      answer["explanation"] = report::explanationJson(*explanation);
    if (!subjects.empty())
      answer["explanation"]["subject"] = report::subjectJson(subjects);
    std::cout << answer.dump(2) << "\n";
    return ExitCode::Done;
  }
  std::cout << report::planText(facts);
  if (explanation)
    std::cout << report::explanationText(*explanation);
  if (!subjects.empty())
    std::cout << report::subjectText(subjects, compilation.getSearch().plan.degrees);
  return ExitCode::Done;
}

} // namespace dtc::driver
