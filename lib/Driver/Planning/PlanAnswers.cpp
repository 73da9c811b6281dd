#include "PlanAnswers.h"

#include "Conditions.h"

#include "dtc/Dialect/Graph/SlotOps.h"
#include "dtc/Driver/FlagWords.h"
#include "dtc/Report/Explanation.h"
#include "dtc/Report/Json.h"
#include "dtc/Report/PlanText.h"
#include "dtc/Report/Report.h"

#include "llvm/Support/Base64.h"
#include "llvm/Support/SHA256.h"

namespace dtc::driver {

report::PlanFacts factsOf(const Request &request, const Planned &planned) {
  return {planned.problem,
          planned.search,
          request.cluster,
          request.options.devices,
          planned.planningSeconds,
          planned.workspace.get(),
          conditionsOf(request, planned),
          planned.paddedSamples};
}

Outcome<Planned> planModel(Environment &env, const Request &request,
                           const import::ModelFile &file) {
  auto trained = importForTraining(request, file);
  if (!trained)
    return trained.category();
  return makePlan(env, request, file, std::move(*trained));
}

/// How many times the rows that choose experts are computed.
static double timesOfRows(const plan::Problem &problem) {
  double most = 1;
  for (const plan::Op &op : problem.ops)
    if (op.name == graph::ToSlotsOp::getOperationName())
      most = std::max(most, double(problem.values[op.results[0]].elements()) /
                                double(problem.values[op.operands[0]].elements()));
  return most;
}

std::optional<std::string> costOfSlots(const plan::Problem &problem) {
  constexpr double kMuch = 2;
  const double times = timesOfRows(problem);
  if (times < kMuch)
    return std::nullopt;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", times);
  return "experts have slots for whatever tokens choose, and compute " + std::string(text) +
         " times the rows";
}

/// Who asked for slots for the worst case knows what they cost.
static std::optional<std::string> warningOfSlots(const Request &request, const Planned &planned) {
  std::optional<std::string> cost = costOfSlots(planned.problem);
  if (request.spec.capacity || !cost)
    return std::nullopt;
  const char *others = request.options.onlyPlan ? "; --for plans other programs" : "";
  const char *tiles = multipliesTiles(request.options)
                          ? "; with capacity=tiles these are hardly more than there are"
                          : "";
  return *cost + tiles + "; capacity=NUMBER pins fewer" + others;
}

std::vector<std::string> warningsOf(const Request &request, const Planned &planned) {
  const training::Precision precision = request.options.train.precision;
  const bool isBf16 =
      precision == training::Precision::BF16 || precision == training::Precision::BF16True;
  std::vector<std::string> warnings = report::planWarnings(factsOf(request, planned), isBf16);
  if (auto warning = warningOfSlots(request, planned))
    warnings.push_back(*warning);
  return warnings;
}

std::string yamlOf(const Planned &planned) {
  return (planned.toSave ? plan::toYaml(planned.toSave->plan, planned.toSave->problem)
                         : plan::toYaml(planned.search.plan, planned.problem)) +
         plan::paddedYaml(planned.padded, planned.paddedSamples);
}

/// What was found out to comment on settings isn't told beside them.
static const plan::Explanation *explanationOf(const Request &request, const Planned &planned) {
  return request.options.explain && planned.explanation ? &*planned.explanation : nullptr;
}

/// What it takes to allow the page its own style sheet alone.
static std::string digest(const std::string &text) {
  return llvm::encodeBase64(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)));
}

plan::Result<std::string> pageOf(const Request &request, const Planned &planned) {
  return report::reportPage(factsOf(request, planned), digest, explanationOf(request, planned));
}

Outcome<Subjects> explainName(const Request &request, const Planned &planned,
                              const std::string &name) {
  const plan::SearchResult &search = planned.search;
  auto found = plan::explainSharding(planned.problem, search.plan, search.predicted,
                                     request.cluster, search.solver, name, planned.workspace.get());
  if (!found)
    return fail(found.error());
  return std::move(*found);
}

report::ToolPlan toolPlanOf(const Request &request, const Planned &planned) {
  const std::optional<plan::Explanation> &explanation = planned.explanation;
  return report::toolPlan(*request.preset, factsOf(request, planned),
                          wordOf(kPrecisions, request.options.train.precision), request.headroom,
                          explanation ? &*explanation : nullptr);
}

std::string planText(const Request &request, const Planned &planned, const Subjects &subjects) {
  std::string text = report::planText(factsOf(request, planned));
  if (request.preset)
    text += report::toolText(toolPlanOf(request, planned), planned.search.predicted);
  if (const plan::Explanation *explanation = explanationOf(request, planned))
    text += report::explanationText(*explanation);
  if (!subjects.empty())
    text += report::subjectText(subjects, planned.search.plan.degrees);
  return text;
}

std::string planJson(const Request &request, const Planned &planned, const Subjects &subjects) {
  nlohmann::ordered_json json = report::planJson(factsOf(request, planned));
  if (request.preset)
    json["for"] = report::toolJson(toolPlanOf(request, planned), planned.search.predicted);
  if (const plan::Explanation *explanation = explanationOf(request, planned))
    json["explanation"] = report::explanationJson(*explanation);
  if (!subjects.empty())
    json["explanation"]["subject"] = report::subjectJson(subjects);
  return json.dump(2) + "\n";
}

} // namespace dtc::driver
