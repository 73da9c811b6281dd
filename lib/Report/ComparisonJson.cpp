#include "dtc/Report/Json.h"

#include "dtc/Report/Words.h"

namespace dtc::report {

using nlohmann::ordered_json;

static ordered_json sideJson(const Compared &plan) {
  ordered_json result = {{"name", plan.name}};
  result.update(planJson(plan.facts));
  return result;
}

static ordered_json totalJson(const plan::CollectiveTotal &total) {
  return {{"count", total.count}, {"bytes", total.bytes}, {"time_s", total.seconds}};
}

static ordered_json winner(const plan::Prediction &a, const plan::Prediction &b,
                           const plan::Difference &difference) {
  if (a.fits() != b.fits())
    return a.fits() ? "a" : "b";
  if (difference.seconds == 0)
    return nullptr;
  return difference.seconds > 0 ? "a" : "b";
}

ordered_json comparisonJson(const Compared &a, const Compared &b) {
  const plan::SearchResult &first = a.facts.search, &second = b.facts.search;
  plan::Difference difference =
      differenceOf(second.predicted, second.plan.degrees.samples(), first.predicted,
                   first.plan.degrees.samples());
  ordered_json collectives = ordered_json::array();
  for (const plan::CollectivePair &pair : differingCollectives(first.predicted, second.predicted))
    collectives.push_back(
        {{"kind", pair.a.send ? "send" : collectiveName(pair.a.kind)},
         {"axis", pair.a.axis},
         {"a", totalJson(pair.a)},
         {"b", totalJson(pair.b)}});
  return {{"a", sideJson(a)},
          {"b", sideJson(b)},
          {"difference",
           {{"step_time_s", difference.seconds},
            {"share", difference.share},
            {"time", partsJson(difference.parts)},
            {"memory", memoryJson(difference.memory)},
            {"peak_memory_bytes", difference.memory.total()}}},
          {"collectives", collectives},
          {"winner", winner(first.predicted, second.predicted, difference)}};
}

} // namespace dtc::report
