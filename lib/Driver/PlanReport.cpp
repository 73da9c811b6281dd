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

static ordered_json predictionJson(const Prediction &predicted, const PlanFacts &facts) {
  const plan::Problem &problem = facts.problem;
  double tokens = double(problem.globalBatch()) * problem.tokensPerSample;
  double perDevice = predicted.stepSeconds > 0 ? 1 / (predicted.stepSeconds * facts.devices) : 0;
  double flops = predicted.modelFlops * perDevice;
  double peak = plan::CostModel(facts.cluster, facts.devices).peakFlops(computeType(problem));
  return {{"step_time_s", knownOrNull(predicted.stepSeconds)},
          {"tokens_per_s_per_device", knownOrNull(tokens * perDevice)},
          {"model_tflops_per_device", knownOrNull(flops / 1e12)},
          {"mfu", peak > 0 ? knownOrNull(flops / peak) : ordered_json(nullptr)},
          {"peak_memory_bytes", predicted.memory.total()},
          {"fits", predicted.fits()},
          {"bubble_fraction", predicted.bubbleFraction},
          {"exposed_communication_s", predicted.communicationSeconds}};
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

ordered_json planJson(const PlanFacts &facts) {
  const plan::SearchResult &search = facts.search;
  ordered_json collectives = ordered_json::array(), alternatives = ordered_json::array();
  for (const plan::CollectiveUse &use : search.predicted.collectives)
    collectives.push_back({{"kind", collectiveName(use.kind)},
                           {"axis", use.axis},
                           {"bytes", use.bytes},
                           {"count", use.count},
                           {"time_s", use.seconds}});
  for (const auto &alternative : search.alternatives)
    alternatives.push_back({{"plan", degreesJson(alternative.degrees)},
                            {"predicted", predictionJson(alternative.predicted, facts)}});
  return {{"model",
           {{"parameters", facts.problem.parameterElements()}, {"nodes", facts.problem.fileNodes}}},
          {"devices", facts.devices},
          {"planning_time_s", facts.planningSeconds},
          {"plan", degreesJson(search.plan.degrees)},
          {"predicted", predictionJson(search.predicted, facts)},
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
    out << "  " << padded(collectiveName(use.kind), 14) << " over " << padded(use.axis, 6) << " "
        << padded(std::to_string(use.count) + " x " + formatBytes(use.bytes), 18)
        << formatSeconds(use.seconds) << "\n";
}

static std::string predictionText(const Prediction &predicted) {
  return "step time " + padded(formatSeconds(predicted.stepSeconds), 9) + "  communication " +
         padded(formatSeconds(predicted.communicationSeconds), 9) + "  memory a rank " +
         formatBytes(predicted.memory.total()) + (predicted.fits() ? "" : "  doesn't fit");
}

static std::string degreesText(const Degrees &degrees) {
  std::string text = "dp=" + std::to_string(degrees.dp) + " tp=" + std::to_string(degrees.tp);
  if (degrees.numMicrobatches > 1)
    text += " micro_batch=" + std::to_string(degrees.microBatch) + " x " +
            std::to_string(degrees.numMicrobatches);
  return text;
}

static void printMemory(std::ostream &out, const Prediction &predicted) {
  const plan::MemoryUse &memory = predicted.memory;
  out << "memory a rank: parameters " << formatBytes(memory.parameters) << ", gradients "
      << formatBytes(memory.gradients) << ", optimizer " << formatBytes(memory.optimizer)
      << ", data " << formatBytes(memory.data) << ", activations "
      << formatBytes(memory.activations) << "; of " << formatBytes(predicted.memoryCapacity)
      << "\n";
}

std::string planText(const PlanFacts &facts) {
  const plan::SearchResult &search = facts.search;
  std::ostringstream out;
  out << facts.problem.model << ": " << facts.problem.parameterElements() << " parameters, global batch "
      << facts.problem.globalBatch() << ", " << facts.devices << " x " << facts.cluster.device.name
      << "\n";
  out << "mesh ";
  for (const sharding::MeshAxis &axis : search.plan.mesh.axes)
    out << " " << axis.name << "=" << axis.size;
  if (search.plan.mesh.axes.empty())
    out << " one device";
  out << "\n";
  printParameters(out, facts);
  printCollectives(out, facts);
  printMemory(out, search.predicted);
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
