// Stages, collectives and alternatives: tables with bars.
#include "Cluster.h"
#include "Figures.h"
#include "Sections.h"

#include "dtc/Report/Comparison.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <tuple>

namespace dtc::report {

using plan::CollectiveUse;
using plan::Prediction;
using plan::StagePrediction;

static constexpr size_t kMostStages = 64, kMostCollectives = 40, kMostAlternatives = 20;

static std::vector<int64_t> stagesOf(const Page &page, int64_t rank) {
  const schedule::Placement placement = placementOf(page.degrees());
  std::vector<int64_t> stages;
  for (int64_t chunk = 0; chunk < placement.chunks(); ++chunk)
    stages.push_back(placement.stage(rank, chunk));
  return stages;
}

std::string stagesOfRank(const Page &page, int64_t rank) {
  std::vector<int64_t> held = stagesOf(page, rank);
  return (held.size() == 1 ? "stage " : "stages ") + numbersText(held);
}

std::string layersOfRank(const Page &page, int64_t rank) {
  std::vector<int64_t> held;
  for (int64_t stage : stagesOf(page, rank)) {
    const StagePrediction &entry = page.predicted().stages[stage];
    for (int64_t layer = entry.firstLayer; layer >= 0 && layer <= entry.lastLayer; ++layer)
      held.push_back(layer);
  }
  // A layer may be cut between stages.
  held.erase(std::unique(held.begin(), held.end()), held.end());
  return held.empty() ? "" : (held.size() == 1 ? "layer " : "layers ") + numbersText(held);
}

/// "16 x h100", "4 x h100 + 4 x a100-80": of a stage, where devices differ.
static std::string devicesOn(const Page &page, const StagePrediction &stage) {
  std::map<std::string, int64_t> counts;
  for (int64_t device : stage.devices)
    ++counts[page.facts.cluster.deviceAt(device).name];
  std::string text;
  for (const auto &[name, count] : counts)
    text += (text.empty() ? "" : " + ") + std::to_string(count) + " x " + name;
  return text;
}

/// Stages that follow one another and look alike: as many layers, and the same
/// figures as they are shown.
static size_t alikeFrom(const Page &page, size_t first) {
  const std::vector<StagePrediction> &stages = page.predicted().stages;
  auto key = [&](const StagePrediction &stage) {
    return std::tuple(devicesOn(page, stage),
                      stage.firstLayer < 0 ? -1 : stage.lastLayer - stage.firstLayer,
                      stage.parameters, formatSeconds(stage.forwardSeconds),
                      formatSeconds(stage.backwardSeconds));
  };
  size_t end = first + 1;
  while (end < stages.size() && key(stages[end]) == key(stages[first]))
    ++end;
  return end;
}

static std::string span(int64_t first, int64_t last) {
  return std::to_string(first) + (last > first ? "\u2013" + std::to_string(last) : "");
}

static void writeStageRow(Html &html, const Page &page, size_t first, size_t end,
                          double slowest) {
  const std::vector<StagePrediction> &stages = page.predicted().stages;
  const StagePrediction &stage = stages[first];
  std::string layers = "\u2013";
  if (stage.firstLayer >= 0)
    layers =
        span(stage.firstLayer, stages[end - 1].lastLayer) +
        (end - first > 1 ? ", " + std::to_string(stage.lastLayer - stage.firstLayer + 1) + " each"
                         : "");
  html.open("tr").element("th", {{"scope", "row"}}, span(int64_t(first), int64_t(end) - 1));
  html.element("td", layers);
  if (!page.facts.cluster.others.empty())
    html.open("td").name(devicesOn(page, stage)).close();
  html.element("td", {{"class", "number"}}, std::to_string(stage.parameters));
  html.element("td", {{"class", "number"}}, formatSeconds(stage.forwardSeconds));
  html.element("td", {{"class", "number"}}, formatSeconds(stage.backwardSeconds));
  html.open("td");
  smallBar(html, stage.forwardSeconds + stage.backwardSeconds, slowest, "accent");
  html.close().close();
}

void writeStages(Html &html, const Page &page) {
  const std::vector<StagePrediction> &stages = page.predicted().stages;
  if (stages.size() < 2)
    return;
  double slowest = 0;
  for (const StagePrediction &stage : stages)
    slowest = std::max(slowest, stage.forwardSeconds + stage.backwardSeconds);
  openSection(
      html, "stages", "The stages of the pipeline",
      std::string(
          "Which layers each stage has, and how long it takes for one microbatch. The slowest "
          "sets the pace: bars of equal length are good.") +
          (page.degrees().chunks > 1
               ? " Rank 0 of the pipeline holds " + stagesOfRank(page, 0) + "."
               : std::string()));
  std::vector<Column> columns = {{"Stage"}, {"Layers"}};
  if (!page.facts.cluster.others.empty())
    columns.push_back({"Devices"});
  columns.insert(columns.end(), {{"Parameters a device", true},
                                 {"Forward", true},
                                 {"Backward", true},
                                 {"Both"}});
  openTable(html, "Stages of the pipeline", columns);
  size_t rows = 0, first = 0;
  for (; first < stages.size() && rows < kMostStages; ++rows) {
    size_t end = alikeFrom(page, first);
    writeStageRow(html, page, first, end, slowest);
    first = end;
  }
  html.close().close().close();
  if (first < stages.size())
    html.element("p", {{"class", "note"}},
                 std::to_string(stages.size() - first) + " more stages aren't listed.");
  html.close();
}

static const char *meaning(const CollectiveUse &use) {
  if (use.send)
    return "hands a result to the next or the last stage";
  switch (use.kind) {
  case sharding::StepKind::AllReduce:
    return "all ranks get the sum of what each has";
  case sharding::StepKind::ReduceScatter:
    return "each rank gets one part of the sum";
  case sharding::StepKind::AllGather:
    return "all ranks get the parts of all";
  case sharding::StepKind::AllToAll:
    return "each rank sends a different part to every other";
  case sharding::StepKind::Permute:
    return "each rank sends what it has to one other";
  case sharding::StepKind::Slice:
    return "";
  }
  return "";
}

void writeCollectives(Html &html, const Page &page) {
  std::vector<CollectiveUse> uses = page.predicted().collectives;
  std::stable_sort(uses.begin(), uses.end(), [](const CollectiveUse &a, const CollectiveUse &b) {
    return a.seconds > b.seconds;
  });
  openSection(html, "collectives", "What is communicated",
              uses.empty()
                  ? "Nothing: there is one device."
                  : "Collectives are exchanges in which a group of ranks takes part. These are "
                    "all of a step, of the rank that communicates longest, the dearest first. "
                    "Much of their time may pass beside computation: what doesn't is the "
                    "exposed communication above.");
  if (!uses.empty()) {
    openTable(html, "Collectives by time",
              {{"Collective"},
               {"Over"},
               {"Calls", true},
               {"Bytes of a call", true},
               {"Time a step", true},
               {""},
               {"Effect"}});
    for (size_t i = 0; i < std::min(uses.size(), kMostCollectives); ++i) {
      const CollectiveUse &use = uses[i];
      html.open("tr").open("th", {{"scope", "row"}}).element("code", collectiveName(use)).close();
      html.element("td", use.axis);
      html.element("td", {{"class", "number"}}, std::to_string(use.count));
      html.element("td", {{"class", "number"}}, formatBytes(double(use.bytes)));
      html.open("td", {{"class", "number"}});
      html.figure("collective" + std::to_string(i), use.seconds, formatSeconds(use.seconds));
      html.close().open("td");
      smallBar(html, use.seconds, uses.front().seconds, "t2");
      html.close().element("td", meaning(use)).close();
    }
    html.close().close().close();
  }
  if (uses.size() > kMostCollectives)
    html.element("p", {{"class", "note"}},
                 std::to_string(uses.size() - kMostCollectives) + " cheaper ones aren't listed.");
  html.close();
}

//===----------------------------------------------------------------------===//
// Alternatives
//===----------------------------------------------------------------------===//

static void writeAlternative(Html &html, const Page &page, const plan::Degrees &degrees,
                             const Prediction &predicted, double slowest, const std::string &id) {
  plan::Difference difference = plan::differenceOf(
      predicted, degrees.samples(), page.predicted(), page.degrees().samples());
  double step = page.predicted().stepSeconds;
  bool isChosen = id == "chosen";
  html.open("tr", {{"class", isChosen ? "chosen" : "other"}});
  html.open("th", {{"scope", "row"}}).element("code", degreesText(degrees));
  if (isChosen)
    html.element("b", " chosen");
  if (!predicted.fits())
    html.element("b", {{"class", "bad"}}, " doesn't fit");
  html.close().open("td", {{"class", "number"}});
  html.figure(id + "_step", predicted.stepSeconds, formatSeconds(predicted.stepSeconds)).close();
  html.open("td");
  smallBar(html, step + difference.seconds, slowest, isChosen ? "accent" : "t3");
  html.close().open("td");
  if (!isChosen) {
    html.text(slowerText(difference.share));
    std::string parts = partsText(difference.parts, step);
    html.text(parts.empty() ? "" : ": " + parts);
  }
  html.close().open("td", {{"class", "number"}});
  html.figure(id + "_memory", double(predicted.memory.total()),
              formatBytes(double(predicted.memory.total())))
      .close()
      .close();
}

void writeAlternatives(Html &html, const Page &page) {
  const auto &alternatives = page.facts.search.alternatives;
  size_t shown = std::min(alternatives.size(), kMostAlternatives);
  openSection(html, "alternatives", "What else was considered",
              shown == 0
                  ? "No other plan was priced to the end: everything was given, or nothing else "
                    "fits."
                  : "The best of the other plans that the search priced: what each would cost "
                    "against the chosen one, and where.");
  if (shown > 0) {
    double slowest = page.predicted().stepSeconds;
    for (size_t i = 0; i < shown; ++i)
      slowest = std::max(slowest,
                         page.predicted().stepSeconds +
                             plan::differenceOf(alternatives[i].predicted,
                                                alternatives[i].degrees.samples(),
                                                page.predicted(), page.degrees().samples())
                                 .seconds);
    openTable(html, "The chosen plan and its alternatives",
              {{"Plan"}, {"Step time", true}, {""}, {"Against the chosen plan"}, {"Memory", true}});
    writeAlternative(html, page, page.degrees(), page.predicted(), slowest, "chosen");
    for (size_t i = 0; i < shown; ++i)
      writeAlternative(html, page, alternatives[i].degrees, alternatives[i].predicted, slowest,
                       "alternative" + std::to_string(i));
    html.close().close().close();
  }
  html.close();
}

} // namespace dtc::report
