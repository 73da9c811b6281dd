// What was planned, in a sentence, in figures, and in words.
#include "Figures.h"
#include "Sections.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc::report {

using plan::Degrees;

/// "70,553,706,496".
static std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (auto at = int64_t(text.size()) - 3; at > 0; at -= 3)
    text.insert(at, ",");
  return text;
}

std::string modelName(const Page &page) {
  const std::string &model = page.facts.problem.model;
  return model.substr(model.find_last_of('/') + 1);
}

static void tile(Html &html, const char *label, const char *id, double value,
                 const std::string &shown, const std::string &note) {
  html.open("div", {{"class", "tile"}});
  html.element("dt", label).open("dd").figure(id, value, shown);
  html.element("span", {{"class", "note"}}, note).close().close();
}

static void writeTiles(Html &html, const Page &page) {
  const plan::Prediction &predicted = page.predicted();
  Rates rates = ratesOf(predicted, page.degrees(), page.facts);
  double step = predicted.stepSeconds;
  auto total = double(predicted.memory.total());
  char flops[64];
  std::snprintf(flops, sizeof(flops), "%.4g TFLOP/s per device", rates.flops / 1e12);
  html.open("dl", {{"class", "tiles"}});
  tile(html, "Step time", "step_time_s", step, formatSeconds(step),
       grouped(page.facts.globalBatch()) + " samples a step" +
           paddedSamplesText(page.facts.paddedSamples));
  if (rates.tokens > 0)
    tile(html, "Throughput", "tokens_per_s_per_device", rates.tokens,
         grouped(std::llround(rates.tokens)), "tokens per second and device");
  if (rates.mfu > 0)
    tile(html, "MFU", "mfu", rates.mfu, formatPercent(rates.mfu),
         flops + std::string(deviceTypes(page.facts.cluster, page.facts.devices).size() > 1
                                 ? ", of the mean peak of all"
                                 : ""));
  tile(html, "Memory", "peak_memory_bytes", total, formatBytes(total),
       "of " + formatBytes(predicted.memoryCapacity) + " on the fullest device");
  tile(html, "Communication", "exposed_communication", predicted.communicationSeconds,
       formatPercent(step > 0 ? predicted.communicationSeconds / step : 0),
       formatSeconds(predicted.communicationSeconds) + " of the step, exposed");
  tile(html, "Pipeline bubble", "bubble_fraction", predicted.bubbleFraction,
       formatPercent(predicted.bubbleFraction), "of the step, idle");
  html.close();
}

/// "Planned for precision fp32, global batch 32; assumed: ...".
static void writeConditions(Html &html, const Page &page) {
  if (page.facts.conditions.empty())
    return;
  html.open("p", {{"id", "conditions"}}).text("Planned for ");
  std::string separator;
  for (const Condition &condition : page.facts.conditions) {
    std::string words = condition.name;
    std::replace(words.begin(), words.end(), '-', ' ');
    html.text(separator + words + " ").name(condition.value);
    if (condition.isAssumed)
      html.text(condition.reason.empty() ? " (assumed)" : " (assumed: " + condition.reason + ")");
    separator = ", ";
  }
  html.text(".").close();
}

void writeSummary(Html &html, const Page &page) {
  const plan::Prediction &predicted = page.predicted();
  int64_t parameters = page.facts.problem.parameterElements(), devices = page.facts.devices;
  int64_t padding = page.facts.problem.paddingElements();
  html.open("header").element("p", {{"class", "kicker"}}, "dtc plan report");
  html.open("h1").name(modelName(page)).close();
  html.open("p", {{"class", "lead"}});
  html.figure("parameters", double(parameters), grouped(parameters))
      .text(" parameters" + (padding > 0 ? " and " + grouped(padding) + " of padding" : "") +
            ", trained on ");
  html.figure("devices", double(devices), grouped(devices))
      .text(devices == 1 ? " device (" : " devices (");
  std::vector<std::pair<std::string, int64_t>> types = deviceTypes(page.facts.cluster, devices);
  for (size_t i = 0; i < types.size(); ++i) {
    std::string count = types.size() > 1 ? grouped(types[i].second) + " x " : "";
    html.text((i > 0 ? " and " : "") + count).name(types[i].first);
  }
  html.text("). The plan:").close();
  html.open("p").element("code", {{"id", "degrees"}, {"class", "degrees"}},
                         degreesText(page.degrees()));
  html.close();
  writeConditions(html, page);
  if (predicted.shortBytes() > 0)
    html.element("p", {{"class", "warning"}, {"role", "note"}},
                 "This plan does not fit: the fullest device needs " +
                     formatBytes(double(predicted.memory.total())) + ", more than the " +
                     formatBytes(predicted.memoryCapacity) + " that it has.");
  else if (!predicted.fits())
    html.element("p", {{"class", "warning"}, {"role", "note"}},
                 "This plan does not fit into the memory of hosts: " + hostText(predicted.host) +
                     ".");
  writeTiles(html, page);
  html.element("p", {{"class", "note"}},
               "All figures are predictions, by a simulation of one training step from the cost of "
               "its operations and links.");
  html.close();
}

//===----------------------------------------------------------------------===//
// The plan in words
//===----------------------------------------------------------------------===//

static void choice(Html &html, const std::string &term, const std::string &meaning) {
  html.open("div").open("dt").element("code", term).close().element("dd", meaning).close();
}

static std::string count(const char *name, int64_t value) {
  return std::string(name) + "=" + std::to_string(value);
}

static std::string countText(int64_t count, const char *one, const char *several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

/// Where pipeline ranks have meshes of their own, each group of them.
static void writeGroups(Html &html, const Page &page) {
  std::vector<MeshPart> parts = meshParts(page.facts);
  for (size_t group = 0; group < page.degrees().groups.size(); ++group) {
    Degrees own = inGroup(page.degrees(), group);
    choice(html,
           count("dp", own.dp) + " " + count("tp", own.tp) + (own.sp ? " sp=on " : " ") +
               count("micro_batch", own.microBatch),
           "On " + parts[group].ranks + ": " + countText(own.dp, "copy", "copies") +
               " of their layers, of which each takes " +
               countText(own.microBatch, "sample", "samples") + " of a microbatch; " +
               (own.tp > 1 ? "weight matrices are cut into " + std::to_string(own.tp) + " parts."
                           : "weight matrices are whole."));
  }
}

/// The sentences of a setting and of the number of blocks that have its value.
static std::string meaningOf(const plan::Setting &setting, const Degrees &degrees,
                             const plan::SentenceFacts &facts) {
  std::string text = setting.about(degrees, facts) + ".";
  if (setting.blocks && degrees.*setting.blocks > 0)
    text += " " + plan::settingOf(setting.blocks).about(degrees, facts) + ".";
  return text;
}

static void writeSettings(Html &html, const Page &page) {
  const Degrees &degrees = page.degrees();
  std::vector<const plan::Setting *> byTopic;
  for (const plan::Setting &setting : plan::settings()) {
    bool isSaidByGroups = setting.topic == plan::Topic::Layers && !degrees.groups.empty();
    bool isSaid = setting.about && !isBlockCount(setting) && !isSaidByGroups;
    if (isSaid && (setting.topic == plan::Topic::Batch || !isPlain(setting, degrees)))
      byTopic.push_back(&setting);
  }
  std::stable_sort(byTopic.begin(), byTopic.end(),
                   [](const auto *a, const auto *b) { return a->topic < b->topic; });
  const plan::SentenceFacts facts{grouped(page.facts.problem.globalBatch()),
                                  hostText(page.predicted().host)};
  for (const plan::Setting *setting : byTopic) {
    std::string term = setting->name + ("=" + valueText(*setting, degrees));
    if (setting->topic == plan::Topic::Batch)
      term = settingText(*setting, degrees) + " \u00D7 " + std::to_string(degrees.numMicrobatches);
    choice(html, term, meaningOf(*setting, degrees, facts));
  }
}

void writeChoices(Html &html, const Page &page) {
  openSection(html, "plan", "The plan in words",
              "How " + grouped(page.facts.devices) +
                  (page.facts.devices == 1 ? " device trains" : " devices share the training of") +
                  " one model. Rank: one device's part in it.");
  html.open("dl", {{"class", "choices"}});
  writeGroups(html, page);
  writeSettings(html, page);
  html.close();
  double gap = page.facts.search.optimalityGap;
  if (gap > 0)
    html.element("p", {{"class", "note"}},
                 "The shardings are within " + formatPercent(gap) + " of optimal.");
  html.close();
}

} // namespace dtc::report
