#include "dtc/Report/Json.h"

#include "dtc/Plan/Plan/SequenceOrder.h"
#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>

namespace dtc::report {

using nlohmann::ordered_json;
using plan::Degrees;
using plan::Prediction;

/// Zero stands for "not known".
static ordered_json knownOrNull(double value) {
  return value > 0 && std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

static ordered_json valueJson(int value) { return value; }
static ordered_json valueJson(int64_t value) { return value; }
static ordered_json valueJson(bool value) { return value; }
static ordered_json valueJson(const plan::AxisOrder &order) { return plan::name(order); }
static ordered_json valueJson(const plan::ExpertCapacity &capacity) {
  if (capacity.isWorstCase() || capacity.inTiles)
    return plan::name(capacity);
  return capacity.factor;
}
template <typename Word>
  requires std::is_enum_v<Word>
static ordered_json valueJson(Word word) {
  return plan::name(word);
}

static ordered_json valueJson(const plan::StageGroups &groups) {
  ordered_json json = ordered_json::array();
  for (const plan::StageGroup &group : groups) {
    ordered_json &entry = json.emplace_back(ordered_json::object());
    for (const plan::Setting *setting : plan::groupSettings())
      entry[setting->name] =
          std::visit([&](auto member) { return valueJson(group.*member.group); }, setting->member);
  }
  return json;
}

/// A number of blocks is null where these are all.
static ordered_json settingJson(const plan::Setting &setting, const Degrees &degrees) {
  if (hasDefault(setting, degrees)) {
    if (isBlockCount(setting))
      return nullptr;
    if (setting.ifZero)
      return degrees.*setting.ifZero;
  }
  return std::visit([&](auto member) { return valueJson(degrees.*member.plan); }, setting.member);
}

ordered_json degreesJson(const Degrees &degrees) {
  ordered_json json = ordered_json::object();
  for (const plan::Setting &setting : plan::settings())
    if (!isLeftOut(setting, degrees))
      json[setting.name] = settingJson(setting, degrees);
  return json;
}

ordered_json partsJson(const plan::StepParts &parts) {
  ordered_json exposed = ordered_json::object();
  for (const auto &[axis, seconds] : parts.exposed)
    exposed[axis] = seconds;
  return {{"compute_s", parts.compute},
          {"recompute_s", parts.recompute},
          {"update_s", parts.update},
          {"bubble_s", parts.bubble},
          {"exposed_communication_s", exposed}};
}

ordered_json memoryJson(const plan::MemoryUse &memory) {
  return {{"parameters", memory.parameters}, {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},   {"data", memory.data},
          {"activations", memory.activations}, {"reserved", memory.reserved},
          {"cached", memory.cached}};
}

/// Of the node that fills its host most.
static ordered_json hostJson(const plan::HostUse &host) {
  return {{"node", host.node},
          {"ranks", host.ranks},
          {"bytes", std::llround(host.bytes)},
          {"capacity_bytes", host.isKnown() ? ordered_json(std::llround(host.capacity))
                                            : ordered_json(nullptr)},
          {"unchecked_nodes", host.unknown}};
}

ordered_json predictionJson(const Prediction &predicted, const Degrees &degrees,
                            const PlanFacts &facts) {
  Rates rates = ratesOf(predicted, degrees, facts);
  const plan::MemoryUse &memory = predicted.memory;
  ordered_json json = {{"step_time_s", knownOrNull(predicted.stepSeconds)},
                       {"tokens_per_s_per_device", knownOrNull(rates.tokens)},
                       {"model_tflops_per_device", knownOrNull(rates.flops / 1e12)},
                       {"padding_tflops_per_device", rates.padding / 1e12},
                       {"mfu", knownOrNull(rates.mfu)},
                       {"peak_memory_bytes", memory.total()},
                       {"fits", predicted.fits()},
                       {"bubble_fraction", predicted.bubbleFraction},
                       {"exposed_communication_s", predicted.communicationSeconds},
                       {"time", partsJson(predicted.parts)},
                       {"memory", memoryJson(memory)},
                       {"workspace_bytes", memory.workspace}};
  if (predicted.host.node >= 0)
    json["host_memory"] = hostJson(predicted.host);
  return json;
}

static ordered_json stagesJson(const Prediction &predicted, const Degrees &degrees) {
  ordered_json stages = ordered_json::array();
  const schedule::Placement placement = placementOf(degrees);
  for (size_t i = 0; i < predicted.stages.size(); ++i) {
    const plan::StagePrediction &stage = predicted.stages[i];
    ordered_json layers = nullptr;
    if (stage.firstLayer >= 0)
      layers = {stage.firstLayer, stage.lastLayer};
    stages.push_back({{"layers", layers},
                      {"devices", stage.devices},
                      {"parameters", stage.parameters},
                      {"peak_memory_bytes", stage.peakMemory},
                      {"capacity_bytes", static_cast<int64_t>(stage.memoryCapacity)},
                      {"forward_s", stage.forwardSeconds},
                      {"backward_s", stage.backwardSeconds}});
    if (degrees.groups.empty())
      continue;
    Degrees own = inGroup(degrees, groupOf(degrees, placement.rank(int64_t(i))));
    for (const plan::Setting *setting : plan::groupSettings())
      if (setting != &plan::settingOf(&Degrees::pp))
        stages.back()[setting->name] = settingJson(*setting, own);
  }
  return stages;
}

/// Sizes as numbers, everything else as words.
static ordered_json conditionsJson(const PlanFacts &facts) {
  ordered_json json = ordered_json::object(), assumed = ordered_json::array();
  for (const Condition &condition : facts.conditions) {
    std::string key = condition.name;
    std::replace(key.begin(), key.end(), '-', '_');
    if (std::optional<int64_t> number = plan::toInteger(condition.value))
      json[key] = *number;
    else
      json[key] = condition.value;
    if (condition.isAssumed)
      assumed.push_back(key);
  }
  json["assumed"] = std::move(assumed);
  json["rough"] = isRough(facts);
  return json;
}

/// Null where there is none.
static ordered_json adviceJson(const plan::Advice &advice) {
  ordered_json json = nullptr;
  if (advice.fewer)
    json["fewer_devices"] = {{"devices", advice.fewer->degrees.devices()},
                             {"plan", degreesJson(advice.fewer->degrees)},
                             {"step_time_s", knownOrNull(advice.fewer->predicted.stepSeconds)}};
  if (advice.globalBatch > 0)
    json["global_batch"] = advice.globalBatch;
  return json;
}

/// Which tokens ranks have whose keys go round; null where none do.
static ordered_json sequenceJson(const PlanFacts &facts) {
  const plan::Plan &plan = facts.search.plan;
  ordered_json json = nullptr;
  if (!plan::passesKeysOn(plan.degrees))
    return json;
  std::string why = plan::whyInOrder(facts.problem, plan::ProblemFacts(facts.problem), plan.mesh);
  json["zigzag"] = why.empty();
  json["why_in_order"] = nullptr;
  if (!why.empty())
    json["why_in_order"] = why;
  return json;
}

ordered_json planJson(const PlanFacts &facts) {
  const plan::SearchResult &search = facts.search;
  ordered_json collectives = ordered_json::array(), alternatives = ordered_json::array();
  for (const plan::CollectiveUse &use : search.predicted.collectives)
    collectives.push_back({{"kind", collectiveName(use)},
                           {"axis", use.axis},
                           {"bytes", use.bytes},
                           {"count", use.count},
                           {"time_s", use.seconds}});
  for (const auto &alternative : search.alternatives)
    alternatives.push_back(
        {{"plan", degreesJson(alternative.degrees)},
         {"predicted", predictionJson(alternative.predicted, alternative.degrees, facts)}});
  return {{"model",
           {{"parameters", facts.problem.parameterElements()},
            {"padding", facts.problem.paddingElements()},
            {"padded_samples", facts.paddedSamples},
            {"nodes", facts.problem.fileNodes}}},
          {"devices", facts.devices},
          {"conditions", conditionsJson(facts)},
          {"planning_time_s", facts.planningSeconds},
          {"plan", degreesJson(search.plan.degrees)},
          {"predicted", predictionJson(search.predicted, search.plan.degrees, facts)},
          {"sequence", sequenceJson(facts)},
          {"stages", stagesJson(search.predicted, search.plan.degrees)},
          {"collectives", collectives},
          {"alternatives", alternatives},
          {"advice", adviceJson(search.advice)}};
}

} // namespace dtc::report
