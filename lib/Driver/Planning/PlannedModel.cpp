#include "dtc/Driver/PlannedModel.h"

#include "PlanAnswers.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Report/Comparison.h"
#include "dtc/Report/Explanation.h"
#include "dtc/Report/Json.h"
#include "dtc/Report/PlanText.h"
#include "dtc/Report/PlanTrace.h"
#include "dtc/Report/Words.h"

namespace dtc::driver {

struct PlannedModel::State {
  explicit State(const Options &options) : env(options) {}
  report::PlanFacts facts() const { return factsOf(request, *planned); }

  Environment env; ///< outlives the IR
  Request request;
  std::unique_ptr<import::ModelFile> file;
  std::optional<Planned> planned;
};

PlannedModel::PlannedModel(std::unique_ptr<State> state) : state(std::move(state)) {}
PlannedModel::~PlannedModel() = default;

Outcome<std::unique_ptr<PlannedModel>> PlannedModel::create(Options options) {
  options.onlyPlan = options.keepsPlan = true;
  auto state = std::make_unique<State>(options);
  auto request = readRequest(options);
  if (!request)
    return request.category();
  state->request = std::move(*request);
  auto file = openModel(state->env, options);
  if (!file)
    return file.category();
  state->file = std::move(*file);
  auto planned = planModel(state->env, state->request, *state->file);
  if (!planned)
    return planned.category();
  state->planned.emplace(std::move(*planned));
  return std::unique_ptr<PlannedModel>(new PlannedModel(std::move(state)));
}

std::vector<std::string> PlannedModel::warnings() const {
  return warningsOf(state->request, *state->planned);
}

std::string PlannedModel::text() const { return planText(state->request, *state->planned, {}); }

std::string PlannedModel::json() const { return planJson(state->request, *state->planned, {}); }

std::string PlannedModel::yaml() const { return yamlOf(*state->planned); }

static Outcome<std::string> outcomeOf(plan::Result<std::string> result) {
  if (!result)
    return fail(result.error());
  return std::move(*result);
}

Outcome<std::string> PlannedModel::page() const {
  return outcomeOf(pageOf(state->request, *state->planned));
}

Outcome<std::string> PlannedModel::trace() const {
  return outcomeOf(report::planTrace(state->facts()));
}

//===----------------------------------------------------------------------===//
// Explanations
//===----------------------------------------------------------------------===//

/// The search gives its reasons while it runs, so that the same plan is searched once more.
Failure PlannedModel::explainWhole() {
  if (state->planned->explanation)
    return std::nullopt;
  state->request.options.explain = true;
  auto planned = planModel(state->env, state->request, *state->file);
  if (!planned)
    return planned.category();
  state->planned.emplace(std::move(*planned));
  return std::nullopt;
}

static const plan::Setting *findSetting(const std::string &name) {
  for (const plan::Setting &setting : plan::settings())
    if (setting.name == name)
      return &setting;
  return nullptr;
}

/// Whether "pp=2 dp=2" says a value of the setting.
static bool says(llvm::StringRef values, const plan::Setting &setting) {
  llvm::SmallVector<llvm::StringRef> each;
  values.split(each, ' ');
  return llvm::any_of(
      each, [&](llvm::StringRef value) { return value.split('=').first == setting.name; });
}

/// What is said of one setting: other values of it, and what its pin costs.
static plan::Explanation about(const plan::Setting &setting, const plan::Explanation &whole) {
  plan::Explanation part = whole;
  std::string chosen = plan::valueText(setting, whole.chosen);
  std::erase_if(part.runnersUp, [&](const plan::Rival &rival) {
    return plan::valueText(setting, rival.degrees) == chosen;
  });
  std::erase_if(part.changes,
                [&](const plan::Change &change) { return !says(change.setting, setting); });
  std::erase_if(part.pins, [&](const plan::PinPrice &pin) { return !says(pin.pin, setting); });
  part.unpinned.reset();
  return part;
}

Outcome<PlannedModel::Explanation> PlannedModel::explain(const std::string &subject) {
  const plan::Setting *setting = findSetting(subject);
  if (!setting && !subject.empty()) {
    auto ways = explainName(state->request, *state->planned, subject);
    if (!ways)
      return ways.category();
    return Explanation{report::subjectText(*ways, state->planned->search.plan.degrees),
                       report::subjectJson(*ways).dump(2)};
  }
  if (Failure failure = explainWhole())
    return *failure;
  const plan::Explanation &whole = *state->planned->explanation;
  plan::Explanation asked = setting ? about(*setting, whole) : whole;
  return Explanation{report::explanationText(asked), report::explanationJson(asked).dump(2)};
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Of one model, whose problem has as many parameters and nodes whatever its batch.
static bool areOfOneModel(const plan::Problem &a, const plan::Problem &b) {
  return a.model == b.model && a.parameterElements() == b.parameterElements() &&
         a.fileNodes == b.fileNodes;
}

Outcome<std::string> PlannedModel::compare(const PlannedModel &other) const {
  report::PlanFacts a = state->facts(), b = other.state->facts();
  if (!areOfOneModel(a.problem, b.problem))
    return fail(
        {"plans of two models can't be compared: " + a.problem.model + ", " + b.problem.model,
         ErrorCategory::Usage});
  return report::comparisonText({report::degreesText(a.search.plan.degrees), a},
                                {report::degreesText(b.search.plan.degrees), b});
}

} // namespace dtc::driver
