#include "dtc/Report/ToolSettings.h"

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Report/Comparison.h"
#include "dtc/Report/Words.h"

#include <algorithm>

namespace dtc::report {

using plan::Degrees;
using plan::Preset;
using plan::SaidSetting;
using plan::Setting;

//===-- comments ----------------------------------------------------------===//

/// "tp" of "tp=8 dp=4", the change that is named first.
static std::string settingChanged(const plan::Change &change) {
  return change.setting.substr(0, change.setting.find('='));
}

/// "tp=8 dp=4: 3.1 % slower".
static std::string costOf(const plan::Change &change) {
  if (!change.rival)
    return "";
  return change.setting + ": " +
         (change.rival->fits() ? slowerText(change.rival->difference.share) : "doesn't fit");
}

static std::string meaningOf(const Setting &setting, const Degrees &degrees,
                             const plan::SentenceFacts &facts) {
  if (&setting == &plan::settingOf(&Degrees::schedule) && degrees.pp > 1)
    return describe(degrees.schedule).about;
  const bool isSaid = setting.topic == plan::Topic::Batch || !isPlain(setting, degrees);
  return isSaid && setting.about ? setting.about(degrees, facts)
                                 : std::string(setting.name) + " isn't used";
}

/// By setting: what it means, and what taking it otherwise would cost.
static std::map<std::string, std::string> meanings(const PlanFacts &facts,
                                                   const plan::Explanation *explanation) {
  const Degrees &degrees = facts.search.plan.degrees;
  const plan::SentenceFacts words{std::to_string(facts.problem.globalBatch()),
                                  hostText(facts.search.predicted.host)};
  std::map<std::string, std::string> result;
  for (const Setting &setting : plan::settings())
    if (!isList(setting))
      result[setting.name] = meaningOf(setting, degrees, words);
  if (!explanation)
    return result;
  for (const plan::Change &change : explanation->changes)
    if (auto known = result.find(settingChanged(change)); known != result.end())
      if (std::string cost = costOf(change); !cost.empty())
        known->second += "; " + cost;
  return result;
}

//===-- plans -------------------------------------------------------------===//

plan::RunFacts runFacts(const PlanFacts &facts, const std::string &precision) {
  const plan::ProblemFacts ofProblem(facts.problem);
  const int64_t node = facts.cluster.devicesPerNode;
  return {facts.devices, node > 0 ? node : facts.devices,
          static_cast<int64_t>(findBlocks(facts.problem, ofProblem).size()),
          facts.problem.tokensPerSample, precision};
}

ToolPlan toolPlan(const Preset &preset, const PlanFacts &facts, const std::string &precision,
                  double headroom, const plan::Explanation *explanation) {
  plan::Facts words = factsOf(facts.search.plan.degrees, runFacts(facts, precision));
  std::vector<SaidSetting> settings = toolSettings(preset, words, meanings(facts, explanation));
  return {preset, std::move(words), std::move(settings), headroom};
}

std::pair<double, double> stepInterval(const Preset &preset, double seconds) {
  const double error = preset.errors.stepTime;
  return {seconds / (1 + error), seconds / (1 - error)};
}

std::string toolText(const ToolPlan &tool, const plan::Prediction &predicted) {
  const Preset &preset = tool.preset;
  auto [low, high] = stepInterval(preset, predicted.stepSeconds);
  const bool isOwn = tool.headroom == preset.errors.memory;
  return "interval   step time " + formatSeconds(low) + " to " + formatSeconds(high) +
         ": nine in ten of the validation's " + std::to_string(preset.errors.runs) +
         " runs are so near\n" + "headroom   " + formatPercent(tool.headroom) +
         " of each device is kept free" + (isOwn ? ": " + preset.errors.reason : "") + "\n" +
         "settings of " + preset.title + "\n" +
         settingsText(preset, tool.facts, tool.settings, /*isFile=*/false);
}

nlohmann::ordered_json toolJson(const ToolPlan &tool, const plan::Prediction &predicted) {
  const Preset &preset = tool.preset;
  auto [low, high] = stepInterval(preset, predicted.stepSeconds);
  nlohmann::ordered_json json = {
      {"program", preset.name},
      {"release", preset.release},
      {"step_time_interval_s", {low, high}},
      {"runs", preset.errors.runs},
      {"memory_headroom", tool.headroom},
      {"settings", nlohmann::ordered_json::array()},
      {"text", settingsText(preset, tool.facts, tool.settings, /*isFile=*/true)}};
  for (const SaidSetting &setting : tool.settings)
    json["settings"].push_back({{"key", setting.key.empty() ? setting.program : setting.key},
                                {"value", setting.value},
                                {"why", setting.comment},
                                {"in_program", setting.key.empty()}});
  return json;
}

//===-- settings that were read -------------------------------------------===//

static std::string wordsOf(const SaidSetting &setting) {
  return setting.key.empty() ? setting.program
                             : setting.key + (setting.value.empty() ? "" : " " + setting.value);
}

/// Lines that only one of two has.
static std::string linesMissing(const std::vector<SaidSetting> &from,
                                const std::vector<SaidSetting> &in, const std::string &mark) {
  std::string text;
  for (const SaidSetting &setting : from)
    if (std::none_of(in.begin(), in.end(),
                     [&](const SaidSetting &other) { return wordsOf(other) == wordsOf(setting); }))
      text += "  " + mark + " " + wordsOf(setting) + "\n";
  return text;
}

std::string betterText(const ToolPlan &read, const PlanFacts &readFacts, const ToolPlan &best,
                       const PlanFacts &bestFacts) {
  const plan::Prediction &now = readFacts.search.predicted, &then = bestFacts.search.predicted;
  const double samples = double(readFacts.search.plan.degrees.samples()) /
                         double(bestFacts.search.plan.degrees.samples());
  const double share = then.stepSeconds * samples / now.stepSeconds - 1;
  std::string text;
  if (!now.fits())
    text = "wrong      these settings don't fit: " + shortText(now) + "\n";
  if (now.fits() && share > -0.0005)
    return text + "better     nothing that " + read.preset.title + " can run is faster\n";
  return text + "better     " + degreesText(bestFacts.search.plan.degrees) + ": step time " +
         formatSeconds(then.stepSeconds) + ", " + slowerText(share) + "\n" +
         linesMissing(read.settings, best.settings, "-") +
         linesMissing(best.settings, read.settings, "+");
}

} // namespace dtc::report
