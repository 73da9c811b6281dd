#include "dtc/Report/Json.h"

#include "dtc/Report/Explanation.h"
#include "dtc/Report/Failure.h"

namespace dtc::report {

using nlohmann::ordered_json;

/// Nothing: no plan.
static ordered_json rivalJson(const std::optional<plan::Rival> &rival,
                              const plan::Explanation &explanation) {
  if (!rival)
    return {{"plan", nullptr}, {"loss", nullptr}};
  const plan::Difference &difference = rival->difference;
  return {{"plan", degreesJson(rival->degrees)},
          {"loss",
           {{"step_time_s", difference.seconds},
            {"share", difference.share},
            {"time", partsJson(difference.parts)},
            {"memory", memoryJson(difference.memory)},
            {"peak_memory_bytes", difference.memory.total()},
            {"fits", rival->fits()},
            {"short_bytes", difference.shortBytes},
            {"text", lossText(*rival, explanation)}}}};
}

static ordered_json pinJson(const plan::PinPrice &pin, const plan::Explanation &explanation) {
  ordered_json result = {{"pin", pin.pin}, {"free", !pin.without}, {"cost", 0.0}};
  result["instead"] = pin.without ? ordered_json(pin.instead) : ordered_json(nullptr);
  if (pin.without) {
    double share = -pin.without->difference.share;
    result["cost"] = share / (1 - share);
  }
  result.update(rivalJson(pin.without, explanation));
  return result;
}

ordered_json explanationJson(const plan::Explanation &explanation) {
  ordered_json runnersUp = ordered_json::array(), changes = ordered_json::array(),
               pins = ordered_json::array();
  for (const plan::Rival &rival : explanation.runnersUp)
    runnersUp.push_back(rivalJson(rival, explanation));
  for (const plan::Change &change : explanation.changes) {
    ordered_json entry = {{"setting", change.setting}};
    entry.update(rivalJson(change.rival, explanation));
    entry["refusal"] =
        change.rival ? ordered_json(nullptr) : ordered_json(failureText(*change.refusal));
    changes.push_back(entry);
  }
  for (const plan::PinPrice &pin : explanation.pins)
    pins.push_back(pinJson(pin, explanation));
  ordered_json unpinned = nullptr;
  if (explanation.unpinned)
    unpinned = rivalJson(explanation.unpinned, explanation);
  return {{"step_time_s", explanation.predicted.stepSeconds},
          {"time", partsJson(explanation.predicted.parts)},
          {"runners_up", runnersUp},
          {"changes", changes},
          {"pins", pins},
          {"unpinned", unpinned}};
}

static ordered_json oneSubjectJson(const plan::ShardingExplanation &subject) {
  ordered_json ways = ordered_json::array();
  for (const plan::ShardingWay &way : subject.ways) {
    ordered_json entry = {{"sharding", way.sharding}, {"chosen", way.chosen}};
    ordered_json none = nullptr;
    bool priced = way.difference.has_value();
    entry["cost"] = priced       ? ordered_json(way.difference->share)
                    : way.chosen ? ordered_json(0.0)
                                 : none;
    entry["time"] = priced ? partsJson(way.difference->parts) : none;
    entry["peak_memory_bytes"] = priced ? ordered_json(way.difference->memory.total()) : none;
    entry["fits"] = priced ? ordered_json(way.difference->shortBytes == 0) : none;
    entry["refusal"] = way.refusal.empty() ? none : ordered_json(way.refusal);
    ways.push_back(entry);
  }
  ordered_json json = {
      {"name", subject.name}, {"kind", subject.kind}, {"shape", subject.shape}, {"ways", ways}};
  if (subject.group)
    json["stage_group"] = *subject.group;
  return json;
}

ordered_json subjectJson(const std::vector<plan::ShardingExplanation> &subjects) {
  ordered_json json = oneSubjectJson(subjects.front());
  if (subjects.front().group)
    json["other_groups"] = ordered_json::array();
  for (size_t i = 1; i < subjects.size(); ++i)
    json["other_groups"].push_back(oneSubjectJson(subjects[i]));
  return json;
}

} // namespace dtc::report
