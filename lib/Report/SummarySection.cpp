// What was planned, in a sentence, in figures, and in words.
#include "Figures.h"
#include "Sections.h"

#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Report/Words.h"

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
       grouped(page.facts.problem.globalBatch()) + " samples a step");
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

void writeSummary(Html &html, const Page &page) {
  const plan::Prediction &predicted = page.predicted();
  int64_t parameters = page.facts.problem.parameterElements(), devices = page.facts.devices;
  html.open("header").element("p", {{"class", "kicker"}}, "dtc plan report");
  html.open("h1").name(modelName(page)).close();
  html.open("p", {{"class", "lead"}});
  html.figure("parameters", double(parameters), grouped(parameters))
      .text(" parameters, trained on ");
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

static void writeDegrees(Html &html, const Degrees &degrees) {
  auto number = [](int64_t value) { return std::to_string(value); };
  bool isUniform = degrees.groups.empty(); // else writeGroups has said it
  if (degrees.dp > 1 && isUniform)
    choice(html, count("dp", degrees.dp),
           "Data parallel: " + number(degrees.dp) +
               " copies of the model work on different samples and "
               "sum their gradients once a step.");
  if (degrees.tp > 1 && isUniform)
    choice(html, count("tp", degrees.tp),
           "Tensor parallel: weight matrices are cut into " + number(degrees.tp) +
               " parts, held by " + number(degrees.tp) +
               " devices that work on the same samples and exchange partial results "
               "inside every layer. It wants fast links.");
  if (degrees.sp && isUniform)
    choice(html, "sp=on",
           "Sequence parallel: what tensor parallelism would leave whole (norms, residual "
           "sums) is split along the sequence, which saves memory.");
  if (degrees.cp > 1)
    choice(html, count("cp", degrees.cp),
           "Context parallel: each sequence is cut into " + number(degrees.cp) +
               " parts on as many devices.");
  if (degrees.ep > 1)
    choice(html, count("ep", degrees.ep),
           "Expert parallel: experts are spread over " + number(degrees.ep) +
               " devices; tokens travel to theirs.");
  if (degrees.pp > 1)
    choice(html, count("pp", degrees.pp),
           "Pipeline parallel: the layers are cut into stages on " + number(degrees.pp) +
               " ranks; microbatches flow through them. Little is sent, but ranks wait for each "
               "other.");
  if (degrees.pp > 1)
    choice(html, std::string("schedule=") + plan::name(degrees.schedule),
           "In which order the ranks of the pipeline work; drawn below.");
  if (degrees.chunks > 1)
    choice(html, count("chunks", degrees.chunks),
           "Each rank of the pipeline holds " + number(degrees.chunks) + " stages.");
}

static void writeOrder(Html &html, const Degrees &degrees) {
  if (!plan::hasDefaultPlacement(degrees))
    choice(html, "order=" + plan::name(degrees.order),
           "How the axes lie on the devices, innermost first: ranks of the first are neighbours.");
}

static std::string aboutZero(int level) {
  if (level == 1)
    return "ZeRO-1: the optimizer's state is stored in parts over the data-parallel ranks.";
  if (level == 2)
    return "ZeRO-2: optimizer state and gradients are stored in parts over the data-parallel "
           "ranks.";
  return "ZeRO-3: optimizer state, gradients and parameters are stored in parts over the "
         "data-parallel "
         "ranks; parameters are gathered before each use.";
}

static void writeMemoryChoices(Html &html, const Page &page) {
  const Degrees &degrees = page.degrees();
  if (degrees.zero > 0)
    choice(html, count("zero", degrees.zero),
           aboutZero(degrees.zero) +
               (degrees.zeroBlocks > 0
                    ? " So in " + std::to_string(degrees.zeroBlocks) +
                          " of the layers; elsewhere ZeRO-" + std::to_string(degrees.zero - 1) + "."
                    : ""));
  if (degrees.zeroGroup > 0)
    choice(html, count("zero_group", degrees.zeroGroup),
           "ZeRO's parts are spread over groups of " + std::to_string(degrees.zeroGroup) +
               " ranks.");
  std::string where = degrees.recomputeBlocks > 0
                          ? " In " + std::to_string(degrees.recomputeBlocks) + " of the layers."
                          : "";
  if (degrees.recompute == plan::Recompute::Selective)
    choice(html, "recompute=selective",
           "What attention keeps inside is computed again in the backward pass instead of being "
           "kept." + where);
  if (degrees.recompute == plan::Recompute::Full)
    choice(html, "recompute=full",
           "Only the inputs of layers are kept for the backward pass, which computes the rest "
           "again: less memory, up to a third more arithmetic." + where);
  if (degrees.offload == plan::Offload::Optimizer)
    choice(html, "offload=optimizer", "The optimizer's state lies in the hosts' memory: " +
                                        hostText(page.predicted().host) + ".");
}

void writeChoices(Html &html, const Page &page) {
  const Degrees &degrees = page.degrees();
  openSection(html, "plan", "The plan in words",
              "How " + grouped(page.facts.devices) +
                  (page.facts.devices == 1 ? " device trains" : " devices share the training of") +
                  " one model. Rank: one device's part in it.");
  html.open("dl", {{"class", "choices"}});
  writeGroups(html, page);
  writeDegrees(html, degrees);
  writeOrder(html, degrees);
  writeMemoryChoices(html, page);
  choice(html,
         "micro_batch=" + groupsText(degrees, &Degrees::microBatch) + " \u00D7 " +
             std::to_string(degrees.numMicrobatches),
         "A step's " + grouped(page.facts.problem.globalBatch()) + " samples are cut" +
             (degrees.groups.empty() ? ", on each copy of the model," : "") + " into " +
             countText(degrees.numMicrobatches, "microbatch", "microbatches") + " of " +
             (degrees.groups.empty()
                  ? countText(degrees.microBatch, "sample", "samples") + "."
                  : countText(degrees.dataRanks() * degrees.microBatch, "sample", "samples") +
                        ", which the copies of a stage share."));
  html.close();
  double gap = page.facts.search.optimalityGap;
  if (gap > 0)
    html.element("p", {{"class", "note"}},
                 "The shardings are within " + formatPercent(gap) + " of optimal.");
  html.close();
}

} // namespace dtc::report
