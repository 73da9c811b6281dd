#include "PlanFromSettings.h"

#include "PlanAnswers.h"

#include "dtc/Driver/FlagWords.h"
#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Plan/Plan/TextFile.h"
#include "dtc/Report/PlanText.h"
#include "dtc/Report/Words.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>

namespace dtc::driver {

namespace {

/// The text of --plan-from, and how messages call it.
struct SettingsText {
  std::string text, name;
};

/// A plan, and what was asked for.
struct Answered {
  Request request;
  Planned planned;
};

} // namespace

/// Arguments have spaces, or begin as flags do; everything else is a file.
static plan::Result<SettingsText> settingsText(const std::string &given) {
  const bool isArguments = given.starts_with("-") || given.find(' ') != std::string::npos;
  std::error_code error; // arguments are too long for a name
  if (isArguments && !std::filesystem::exists(given, error))
    return SettingsText{given, "--plan-from"};
  auto text = plan::readText(given, "settings");
  if (!text)
    return text.error();
  return SettingsText{std::move(*text), given};
}

/// What the settings say beside the plan. They don't override what was typed.
static std::string addSaid(const plan::ReadSettings &read, Options &options) {
  if (read.globalBatch) {
    if (options.globalBatch && *options.globalBatch != *read.globalBatch)
      return "--global-batch " + std::to_string(*options.globalBatch) + " contradicts " +
             std::to_string(*read.globalBatch) + " of --plan-from";
    options.globalBatch = read.globalBatch;
  }
  if (read.precision) {
    const char *asked = wordOf(kPrecisions, options.train.precision);
    if (options.given.contains("--precision") && asked != *read.precision)
      return std::string("--precision ") + asked + " contradicts " + *read.precision +
             " of --plan-from";
    for (const auto &[word, precision] : kPrecisions)
      if (word == *read.precision)
        options.train.precision = precision;
    options.given.insert("--precision");
  }
  options.readSpec = read.spec;
  return "";
}

/// Reads the settings for a model of so many layers; 0: not known yet.
static Outcome<plan::ReadSettings> readSettings(const Request &request, const SettingsText &text,
                                                const plan::RunFacts &run) {
  auto read = plan::readToolSettings(*request.preset, text.text, text.name, run);
  if (!read)
    return fail(read.error());
  for (const std::string &line : read->wrong)
    printError(line);
  if (!read->wrong.empty())
    return ErrorCategory::InputRefused;
  return std::move(*read);
}

static Outcome<Answered> plan(Environment &env, const Options &options,
                              const import::ModelFile &file) {
  auto request = readRequest(options);
  if (!request)
    return request.category();
  auto planned = planModel(env, *request, file);
  if (!planned)
    return planned.category();
  return Answered{std::move(*request), std::move(*planned)};
}

/// As --plan-from says it, with nothing left open but what the settings don't say.
static Outcome<Answered> planRead(Environment &env, Options &options, const Request &request,
                                  const import::ModelFile &file, std::vector<std::string> &unread) {
  auto text = settingsText(options.planFrom);
  if (!text)
    return fail(text.error());
  options.readFrom = text->name;
  const int64_t node = request.cluster.devicesPerNode;
  plan::RunFacts run{options.devices, node > 0 ? node : options.devices, 0, 0, ""};
  for (;;) {
    auto read = readSettings(request, *text, run);
    if (!read)
      return read.category();
    if (std::string wrong = addSaid(*read, options); !wrong.empty())
      return fail({wrong, ErrorCategory::Usage});
    auto answered = plan(env, options, file);
    if (!answered)
      return answered;
    // How many stages a rank has may follow from the layers of each.
    const int64_t layers =
        report::runFacts(factsOf(answered->request, answered->planned), "").layers;
    if (run.layers == layers || read->spec.chunks || !read->given.contains("layers_per_stage")) {
      unread = std::move(read->unread);
      return answered;
    }
    run.layers = layers;
  }
}

/// With nothing pinned but what was typed.
static Outcome<Answered> planFreely(Environment &env, Options options,
                                    const import::ModelFile &file) {
  options.readSpec = {};
  options.readFrom.clear();
  return plan(env, options, file);
}

static void tell(const Answered &read, const Answered &best, std::ostream &out) {
  const report::PlanFacts facts = factsOf(read.request, read.planned);
  const report::PlanFacts others = factsOf(best.request, best.planned);
  const report::ToolPlan now = toolPlanOf(read.request, read.planned);
  const report::ToolPlan then = toolPlanOf(best.request, best.planned);
  if (!read.request.options.json) {
    out << planText(read.request, read.planned, {}) << report::betterText(now, facts, then, others);
    return;
  }
  nlohmann::ordered_json json =
      nlohmann::ordered_json::parse(planJson(read.request, read.planned, {}));
  json["better"] = nlohmann::ordered_json::parse(planJson(best.request, best.planned, {}));
  out << json.dump(2) << "\n";
}

Failure planFromSettings(Environment &env, Options options, std::ostream &out) {
  auto request = readRequest(options);
  if (!request)
    return request.category();
  auto file = openModel(env, options);
  if (!file)
    return file.category();
  std::vector<std::string> unread;
  auto read = planRead(env, options, *request, **file, unread);
  if (!read)
    return read.category();
  auto best = planFreely(env, options, **file);
  if (!best)
    return best.category();
  for (auto [isSaid, what] :
       {std::pair(options.readSpec.microBatch.has_value(), "--micro-batch"),
        std::pair(options.readSpec.recompute.has_value(), "--plan recompute=...")})
    if (!isSaid && !options.given.contains(what))
      printNote(std::string("these settings leave open what ") + what + " says: the best is taken");
  if (!unread.empty())
    printNote("these settings say nothing of the plan: " + llvm::join(unread, ", "));
  tell(*read, *best, out);
  return std::nullopt;
}

} // namespace dtc::driver
