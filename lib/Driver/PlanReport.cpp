#include "PlanReport.h"

#include "dtc/Plan/CostModel.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

namespace dtc::driver {

using nlohmann::ordered_json;
using plan::Degrees;
using plan::Prediction;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static std::string threeDigits(double value, const char *unit) {
  char text[64];
  int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, unit);
  return text;
}

std::string formatBytes(double bytes) {
  static const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  return unit ? threeDigits(bytes, units[unit]) : std::to_string(int64_t(bytes)) + " B";
}

std::string formatSeconds(double seconds) {
  if (seconds < 1e-3)
    return threeDigits(seconds * 1e6, "us");
  return seconds < 1 ? threeDigits(seconds * 1e3, "ms") : threeDigits(seconds, "s");
}

const char *collectiveName(sharding::StepKind kind) {
  switch (kind) {
  case sharding::StepKind::AllReduce:
    return "all_reduce";
  case sharding::StepKind::ReduceScatter:
    return "reduce_scatter";
  case sharding::StepKind::AllGather:
    return "all_gather";
  case sharding::StepKind::AllToAll:
    return "all_to_all";
  case sharding::StepKind::Permute:
    return "permute";
  case sharding::StepKind::Slice:
    return "slice";
  }
  return "unknown";
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// Zero stands for "not known" in these figures.
static ordered_json knownOrNull(double value) {
  return value > 0 && std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json degreesJson(const Degrees &degrees) {
  return {{"dp", degrees.dp},
          {"tp", degrees.tp},
          {"pp", degrees.pp},
          {"cp", degrees.cp},
          {"ep", degrees.ep},
          {"sp", degrees.sp},
          {"zero", degrees.zero},
          {"zero_group", degrees.zeroGroup ? degrees.zeroGroup : degrees.dp},
          {"schedule", plan::name(degrees.schedule)},
          {"chunks", degrees.chunks},
          {"micro_batch", degrees.microBatch},
          {"num_microbatches", degrees.numMicrobatches},
          {"recompute", plan::name(degrees.recompute)},
          {"offload", plan::name(degrees.offload)}};
}

static plan::DType computeType(const plan::Problem &problem) {
  for (const plan::Op &op : problem.ops)
    if (op.flops > 0 && !op.operands.empty())
      return problem.values[op.operands.front()].type;
  return plan::DType::F32;
}

namespace {

/// What follows from a prediction, per device; 0: not known.
struct Rates {
  double tokens = 0, flops = 0, mfu = 0;
};

} // namespace

/// `samples`: of a step of that plan, which depends on it where each rank brings
/// its own.
static Rates ratesOf(const Prediction &predicted, const Degrees &degrees,
                     const PlanFacts &facts) {
  double samples = double(degrees.dp * degrees.ep * degrees.microBatch * degrees.numMicrobatches);
  double perDevice = predicted.stepSeconds > 0 ? 1 / (predicted.stepSeconds * facts.devices) : 0;
  double peak = plan::CostModel(facts.cluster, facts.devices).peakFlops(computeType(facts.problem));
  Rates rates;
  rates.tokens = samples * double(facts.problem.tokensPerSample) * perDevice;
  rates.flops = predicted.modelFlops * perDevice;
  rates.mfu = peak > 0 ? rates.flops / peak : 0;
  return rates;
}

static ordered_json predictionJson(const Prediction &predicted, const Degrees &degrees,
                                   const PlanFacts &facts) {
  Rates rates = ratesOf(predicted, degrees, facts);
  const plan::MemoryUse &memory = predicted.memory;
  return {{"step_time_s", knownOrNull(predicted.stepSeconds)},
          {"tokens_per_s_per_device", knownOrNull(rates.tokens)},
          {"model_tflops_per_device", knownOrNull(rates.flops / 1e12)},
          {"mfu", knownOrNull(rates.mfu)},
          {"peak_memory_bytes", memory.total()},
          {"fits", predicted.fits()},
          {"bubble_fraction", predicted.bubbleFraction},
          {"exposed_communication_s", predicted.communicationSeconds},
          {"memory",
           {{"parameters", memory.parameters},
            {"gradients", memory.gradients},
            {"optimizer", memory.optimizer},
            {"data", memory.data},
            {"activations", memory.activations},
            {"reserved", memory.reserved}}}};
}

static ordered_json stagesJson(const Prediction &predicted) {
  ordered_json stages = ordered_json::array();
  for (const plan::StagePrediction &stage : predicted.stages) {
    ordered_json layers = nullptr;
    if (stage.firstLayer >= 0)
      layers = {stage.firstLayer, stage.lastLayer};
    stages.push_back({{"layers", layers},
                      {"devices", stage.devices},
                      {"parameters", stage.parameters},
                      {"peak_memory_bytes", stage.peakMemory},
                      {"forward_s", stage.forwardSeconds},
                      {"backward_s", stage.backwardSeconds}});
  }
  return stages;
}

static const char *nameOf(const plan::CollectiveUse &use) {
  return use.send ? "send" : collectiveName(use.kind);
}

ordered_json planJson(const PlanFacts &facts) {
  const plan::SearchResult &search = facts.search;
  ordered_json collectives = ordered_json::array(), alternatives = ordered_json::array();
  for (const plan::CollectiveUse &use : search.predicted.collectives)
    collectives.push_back({{"kind", nameOf(use)},
                           {"axis", use.axis},
                           {"bytes", use.bytes},
                           {"count", use.count},
                           {"time_s", use.seconds}});
  for (const auto &alternative : search.alternatives)
    alternatives.push_back({{"plan", degreesJson(alternative.degrees)},
                            {"predicted", predictionJson(alternative.predicted, alternative.degrees, facts)}});
  return {{"model",
           {{"parameters", facts.problem.parameterElements()}, {"nodes", facts.problem.fileNodes}}},
          {"devices", facts.devices},
          {"planning_time_s", facts.planningSeconds},
          {"plan", degreesJson(search.plan.degrees)},
          {"predicted", predictionJson(search.predicted, search.plan.degrees, facts)},
          {"stages", stagesJson(search.predicted)},
          {"collectives", collectives},
          {"alternatives", alternatives}};
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string padded(std::string text, size_t width) {
  if (text.size() < width)
    text.append(width - text.size(), ' ');
  return text;
}

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

/// "h.3.ln" and "h.11.ln" both become "h.*.ln".
static std::string familyOf(const std::string &name) {
  std::string family;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    bool component = end > i && (i == 0 || name[i - 1] == '.') &&
                     (end == name.size() || name[end] == '.');
    family += component ? "*" : name.substr(i, std::max<size_t>(end - i, 1));
    i = std::max(end, i + 1);
  }
  return family;
}

/// Parameters of equal family, shape and sharding share a line.
static void printParameters(std::ostream &out, const PlanFacts &facts) {
  const plan::Plan &plan = facts.search.plan;
  struct Row {
    std::string name, shape, sharding;
    int64_t count = 0;
  };
  std::vector<Row> rows;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> known;
  size_t nameWidth = 0, shapeWidth = 0;
  for (int64_t value = 0; value < facts.problem.arguments; ++value) {
    const plan::Value &argument = facts.problem.values[value];
    auto layout = plan.arguments.find(value);
    bool named = argument.kind == plan::ValueKind::Parameter || argument.kind == plan::ValueKind::Buffer;
    if (!named || layout == plan.arguments.end())
      continue;
    std::string shape = shapeText(argument.shape), sharding = layout->second.str(plan.mesh);
    if (!argument.trainable)
      sharding += "  not trained";
    auto [entry, fresh] = known.try_emplace({familyOf(argument.name), shape, sharding}, rows.size());
    if (fresh)
      rows.push_back({argument.name, shape, sharding, 0});
    Row &row = rows[entry->second];
    if (++row.count == 2)
      row.name = familyOf(argument.name);
    nameWidth = std::max(nameWidth, row.name.size());
    shapeWidth = std::max(shapeWidth, shape.size());
  }
  out << "parameters and buffers (as the graph sees them, split over the axes in braces)\n";
  for (const Row &row : rows)
    out << "  " << padded(row.name, nameWidth) << "  " << padded(row.shape, shapeWidth) << "  "
        << row.sharding << (row.count > 1 ? "  x" + std::to_string(row.count) : "") << "\n";
}

static void printCollectives(std::ostream &out, const PlanFacts &facts) {
  out << "collectives (a step and rank)\n";
  if (facts.search.predicted.collectives.empty())
    out << "  none\n";
  for (const plan::CollectiveUse &use : facts.search.predicted.collectives)
    out << "  " << padded(nameOf(use), 14) << " over " << padded(use.axis, 6) << " "
        << padded(std::to_string(use.count) + " x " + formatBytes(use.bytes), 18)
        << formatSeconds(use.seconds) << "\n";
}

static std::string predictionText(const Prediction &predicted) {
  return "step time " + padded(formatSeconds(predicted.stepSeconds), 9) + "  communication " +
         padded(formatSeconds(predicted.communicationSeconds), 9) + "  memory a rank " +
         formatBytes(predicted.memory.total()) + (predicted.fits() ? "" : "  doesn't fit");
}

/// What differs from a plain plan: "dp=4 tp=2 zero=1 micro_batch=1 x 8".
static std::string degreesText(const Degrees &degrees) {
  std::string text = "dp=" + std::to_string(degrees.dp) + " tp=" + std::to_string(degrees.tp);
  auto add = [&](const char *name, int64_t value, int64_t plain) {
    if (value != plain)
      text += std::string(" ") + name + "=" + std::to_string(value);
  };
  add("pp", degrees.pp, 1);
  add("cp", degrees.cp, 1);
  add("ep", degrees.ep, 1);
  if (degrees.sp)
    text += " sp=on";
  add("zero", degrees.zero, 0);
  add("zero_group", degrees.zeroGroup, 0);
  if (degrees.pp > 1)
    text += std::string(" schedule=") + plan::name(degrees.schedule);
  add("chunks", degrees.chunks, 1);
  if (degrees.recompute != plan::Recompute::None)
    text += std::string(" recompute=") + plan::name(degrees.recompute);
  if (degrees.offload != plan::Offload::None)
    text += std::string(" offload=") + plan::name(degrees.offload);
  if (degrees.numMicrobatches > 1)
    text += " micro_batch=" + std::to_string(degrees.microBatch) + " x " +
            std::to_string(degrees.numMicrobatches);
  return text;
}

static std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * share);
  return text;
}

/// Where the step goes, and how much gets done in it.
static void printTime(std::ostream &out, const PlanFacts &facts) {
  const Prediction &predicted = facts.search.predicted;
  Rates rates = ratesOf(predicted, facts.search.plan.degrees, facts);
  double step = predicted.stepSeconds, bubble = predicted.bubbleFraction;
  double exposed = step > 0 ? predicted.communicationSeconds / step : 0;
  out << "step " << formatSeconds(step) << ": computing " << percent(1 - exposed - bubble)
      << ", exposed communication " << percent(exposed) << ", pipeline bubble "
      << percent(bubble) << "\n";
  out << "per device:";
  if (rates.tokens > 0)
    out << " " << std::llround(rates.tokens) << " tokens/s,";
  char text[64];
  std::snprintf(text, sizeof(text), " %.4g TFLOP/s", rates.flops / 1e12);
  out << text;
  if (rates.mfu > 0)
    out << ", MFU " << percent(rates.mfu);
  out << "\n";
}

static std::string rangeText(const std::vector<int64_t> &devices) {
  if (devices.empty())
    return "-";
  std::string first = std::to_string(devices.front());
  return devices.size() == 1 ? first : first + "-" + std::to_string(devices.back());
}

static void printStages(std::ostream &out, const PlanFacts &facts) {
  const Prediction &predicted = facts.search.predicted;
  if (predicted.stages.size() < 2)
    return;
  out << "stage  layers   devices    parameters   memory      of capacity  forward    backward\n";
  for (size_t i = 0; i < predicted.stages.size(); ++i) {
    const plan::StagePrediction &stage = predicted.stages[i];
    std::string layers = "-";
    if (stage.firstLayer >= 0)
      layers = std::to_string(stage.firstLayer) + "-" + std::to_string(stage.lastLayer);
    out << padded(std::to_string(i), 7) << padded(layers, 9)
        << padded(rangeText(stage.devices), 11) << padded(std::to_string(stage.parameters), 13)
        << padded(formatBytes(double(stage.peakMemory)), 12)
        << padded(percent(double(stage.peakMemory) / predicted.memoryCapacity), 13)
        << padded(formatSeconds(stage.forwardSeconds), 11)
        << formatSeconds(stage.backwardSeconds) << "\n";
  }
}

static void printMemory(std::ostream &out, const Prediction &predicted) {
  const plan::MemoryUse &memory = predicted.memory;
  out << "memory a rank: parameters " << formatBytes(memory.parameters) << ", gradients "
      << formatBytes(memory.gradients) << ", optimizer " << formatBytes(memory.optimizer)
      << ", data " << formatBytes(memory.data) << ", activations "
      << formatBytes(memory.activations);
  if (memory.reserved > 0)
    out << ", context and communication buffers " << formatBytes(memory.reserved);
  out << "; of " << formatBytes(predicted.memoryCapacity) << "\n";
}

std::string planText(const PlanFacts &facts) {
  const plan::SearchResult &search = facts.search;
  std::ostringstream out;
  out << facts.problem.model << ": " << facts.problem.parameterElements() << " parameters, global batch "
      << facts.problem.globalBatch() << ", " << facts.devices << " x " << facts.cluster.device.name
      << "\n";
  out << "mesh ";
  if (search.plan.degrees.pp > 1)
    out << " pp=" << search.plan.degrees.pp;
  for (const sharding::MeshAxis &axis : search.plan.mesh.axes)
    out << " " << axis.name << "=" << axis.size;
  if (facts.devices == 1)
    out << " one device";
  out << "\n";
  printParameters(out, facts);
  printCollectives(out, facts);
  printStages(out, facts);
  printMemory(out, search.predicted);
  printTime(out, facts);
  out << "chosen     " << padded(degreesText(search.plan.degrees), 12) << "  "
      << predictionText(search.predicted) << "\n";
  for (const auto &alternative : search.alternatives)
    out << "runner-up  " << padded(degreesText(alternative.degrees), 12) << "  "
        << predictionText(alternative.predicted) << "\n";
  if (search.optimalityGap > 0)
    out << "the shardings are within " << 100 * search.optimalityGap << " % of optimal\n";
  return out.str();
}

} // namespace dtc::driver
