#include "dtc/Report/PlanText.h"

#include "dtc/Plan/Plan/SequenceOrder.h"
#include "dtc/Report/Failure.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

namespace dtc::report {

using plan::Prediction;

/// Times that the ranks of a mesh do the model's work, all together: 1, if each op is split over
/// all axes.
static double repeatedWork(const plan::Problem &problem, const plan::Plan &plan) {
  double ranks = 1, all = 0, done = 0;
  for (const sharding::MeshAxis &axis : plan.mesh.axes)
    ranks *= double(axis.size);
  for (size_t op = 0; op < plan.ops.size() && op < problem.ops.size(); ++op) {
    double parts = 1;
    for (const sharding::AxisList &axes : plan.ops[op].factors)
      for (sharding::AxisId axis : axes)
        parts *= double(plan.mesh.axes[axis].size);
    all += problem.ops[op].flops;
    done += problem.ops[op].flops * ranks / parts;
  }
  return all > 0 ? done / all : 1;
}

/// From so many times on, repeated work is told.
static constexpr double kMuchRepeated = 1.5;

std::vector<std::string> planWarnings(const PlanFacts &facts, bool isBf16) {
  std::vector<std::string> result;
  for (const MeshPart &part : meshParts(facts))
    if (double times = repeatedWork(facts.problem, *part.plan); times > kMuchRepeated) {
      char text[32];
      std::snprintf(text, sizeof(text), "%.1f", times);
      result.push_back("ranks repeat each other's work, as the model's sizes can't be split over "
                       "all of them, or splitting them would take longer: together " +
                       (part.ranks.empty() ? "they" : part.ranks) + " do it " + text + " times");
    }
  bool isVolta = facts.cluster.device.architecture == plan::Architecture::Volta;
  if (isVolta && isBf16)
    result.push_back(facts.cluster.device.name +
                     " can't compute in bf16: planned at its rates of fp16");
  return result;
}

static std::string padded(std::string text, size_t width) {
  if (text.size() < width)
    text.append(width - text.size(), ' ');
  return text;
}

/// Weights of products that tp leaves whole: its ranks exchange activations, or repeat work.
static std::set<plan::ValueId> wholeWeights(const PlanFacts &facts, const plan::Plan &plan) {
  const sharding::AxisList axes = plan.mesh.ofDegree("tp");
  std::set<plan::ValueId> whole;
  for (const plan::Op &op : facts.problem.ops)
    for (plan::ValueId value : op.operands) {
      auto found = plan.arguments.find(value);
      bool isWeight = op.kind == plan::OpKind::Contraction && !op.backward &&
                      facts.problem.values[value].kind == plan::ValueKind::Parameter;
      if (!isWeight || axes.empty() || found == plan.arguments.end())
        continue;
      bool isSplit = false;
      for (const sharding::AxisList &dim : found->second.dims)
        for (sharding::AxisId axis : dim)
          isSplit |= std::find(axes.begin(), axes.end(), axis) != axes.end();
      if (!isSplit)
        whole.insert(value);
    }
  return whole;
}

/// Parameters of equal family, shape and sharding share a line.
static void printParameters(std::ostream &out, const PlanFacts &facts,
                            const MeshPart &part) {
  const plan::Plan &plan = *part.plan;
  struct Row {
    std::string name, shape, sharding;
    int64_t count = 0;
  };
  std::vector<Row> rows;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> known;
  size_t nameWidth = 0, shapeWidth = 0;
  const std::set<plan::ValueId> whole = wholeWeights(facts, plan);
  for (int64_t value = 0; value < facts.problem.arguments; ++value) {
    const plan::Value &argument = facts.problem.values[value];
    auto found = plan.arguments.find(value);
    bool named =
        argument.kind == plan::ValueKind::Parameter || argument.kind == plan::ValueKind::Buffer;
    if (!named || found == plan.arguments.end())
      continue;
    std::string shape = plan::shapeText(argument.shape), sharding = found->second.str(plan.mesh);
    if (!argument.trainable)
      sharding += "  not trained";
    if (whole.contains(value))
      sharding += "  whole";
    auto [entry, fresh] =
        known.try_emplace({familyOf(argument.name), shape, sharding}, rows.size());
    if (fresh)
      rows.push_back({argument.name, shape, sharding, 0});
    Row &row = rows[entry->second];
    if (++row.count == 2)
      row.name = familyOf(argument.name);
    nameWidth = std::max(nameWidth, row.name.size());
    shapeWidth = std::max(shapeWidth, shape.size());
  }
  out << "parameters and buffers" << (part.ranks.empty() ? "" : " of ") << part.ranks
      << " (as the graph sees them, split over the axes in braces)\n";
  for (const Row &row : rows)
    out << "  " << padded(row.name, nameWidth) << "  " << padded(row.shape, shapeWidth) << "  "
        << row.sharding << (row.count > 1 ? "  x" + std::to_string(row.count) : "") << "\n";
  if (!whole.empty())
    out << "  whole: on each rank of tp, which "
        << (repeatedWork(facts.problem, plan) > kMuchRepeated ? "repeat each other's work"
                                                              : "exchange activations instead")
        << "; tp_weights=split cuts such weights\n";
}

static void printCollectives(std::ostream &out, const PlanFacts &facts) {
  out << "collectives (a step and rank)\n";
  if (facts.search.predicted.collectives.empty())
    out << "  none\n";
  for (const plan::CollectiveUse &use : facts.search.predicted.collectives)
    out << "  " << padded(collectiveName(use), 14) << " over " << padded(use.axis, 6) << " "
        << padded(std::to_string(use.count) + " x " + formatBytes(use.bytes), 18)
        << formatSeconds(use.seconds) << "\n";
}

static std::string predictionText(const Prediction &predicted) {
  return "step time " + padded(formatSeconds(predicted.stepSeconds), 9) + "  communication " +
         padded(formatSeconds(predicted.communicationSeconds), 9) + "  memory a rank " +
         formatBytes(predicted.memory.total()) + (predicted.fits() ? "" : "  doesn't fit");
}

/// Where the step goes, and how much gets done in it.
static void printTime(std::ostream &out, const PlanFacts &facts) {
  const Prediction &predicted = facts.search.predicted;
  Rates rates = ratesOf(predicted, facts.search.plan.degrees, facts);
  double step = predicted.stepSeconds, bubble = predicted.bubbleFraction;
  double exposed = step > 0 ? predicted.communicationSeconds / step : 0;
  out << "step " << formatSeconds(step) << ": computing " << formatPercent(1 - exposed - bubble)
      << ", exposed communication " << formatPercent(exposed) << ", pipeline bubble "
      << formatPercent(bubble) << "\n";
  if (isRough(facts))
    out << "rough: this machine isn't measured; dtc calibrate -o cpu.yaml does it, and --cluster "
           "cpu.yaml uses it\n";
  out << "per device:";
  if (rates.tokens > 0)
    out << " " << std::llround(rates.tokens) << " tokens/s,";
  char text[64];
  std::snprintf(text, sizeof(text), " %.4g TFLOP/s", rates.flops / 1e12);
  out << text;
  if (rates.mfu > 0)
    out << ", MFU " << formatPercent(rates.mfu)
        << (deviceTypes(facts.cluster, facts.devices).size() > 1 ? " of the mean peak of all" : "");
  std::snprintf(text, sizeof(text), "; padding %.4g TFLOP/s more", rates.padding / 1e12);
  out << (rates.padding > 0 ? text : "") << "\n";
}

/// Columns as wide as their longest entry, the last one as it is.
static void printTable(std::ostream &out, const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const std::vector<std::string> &row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      out << padded(row[i], widths[i] + 2);
    out << row.back() << "\n";
  }
}

static void printStages(std::ostream &out, const PlanFacts &facts) {
  const Prediction &predicted = facts.search.predicted;
  if (predicted.stages.size() < 2)
    return;
  std::vector<std::vector<std::string>> rows = {{"stage", "layers", "devices", "parameters",
                                                 "memory", "of capacity", "forward", "backward"}};
  for (size_t i = 0; i < predicted.stages.size(); ++i) {
    const plan::StagePrediction &stage = predicted.stages[i];
    std::string layers = "-";
    if (stage.firstLayer >= 0)
      layers = std::to_string(stage.firstLayer) + "-" + std::to_string(stage.lastLayer);
    rows.push_back({std::to_string(i), layers, rangeText(stage.devices),
                    std::to_string(stage.parameters), formatBytes(double(stage.peakMemory)),
                    formatPercent(double(stage.peakMemory) / stage.memoryCapacity),
                    formatSeconds(stage.forwardSeconds), formatSeconds(stage.backwardSeconds)});
  }
  printTable(out, rows);
}

static void printMemory(std::ostream &out, const Prediction &predicted) {
  const plan::MemoryUse &memory = predicted.memory;
  out << "memory a rank: parameters " << formatBytes(memory.parameters) << ", gradients "
      << formatBytes(memory.gradients) << ", optimizer " << formatBytes(memory.optimizer)
      << ", data " << formatBytes(memory.data) << ", activations "
      << formatBytes(memory.activations);
  if (memory.reserved > 0)
    out << ", context and communication buffers " << formatBytes(memory.reserved);
  if (memory.cached > 0)
    out << ", cached " << formatBytes(memory.cached);
  out << "; of " << formatBytes(predicted.memoryCapacity) << "\n";
  if (predicted.host.node >= 0)
    out << "offloaded to hosts: " << hostText(predicted.host) << "\n";
}

/// "for      precision fp32, global batch 32, ...", and which of it nobody asked for.
static void printConditions(std::ostream &out, const PlanFacts &facts) {
  std::string all, assumed;
  for (const Condition &condition : facts.conditions) {
    std::string words = condition.name;
    std::replace(words.begin(), words.end(), '-', ' ');
    all += (all.empty() ? "" : ", ") + words + " " + condition.value;
    if (condition.isAssumed)
      assumed += (assumed.empty() ? "--" : ", --") + condition.name + " " + condition.value +
                 (condition.reason.empty() ? "" : " (" + condition.reason + ")");
  }
  if (!all.empty())
    out << "for      " << all << "\n";
  if (!assumed.empty())
    out << "assumed  " << assumed << "\n";
}

/// Which tokens ranks have whose keys go round.
static void printSequence(std::ostream &out, const PlanFacts &facts) {
  const plan::Plan &plan = facts.search.plan;
  if (!plan::passesKeysOn(plan.degrees))
    return;
  std::string why = plan::whyInOrder(facts.problem, plan::ProblemFacts(facts.problem), plan.mesh);
  out << "sequence  each rank of cp has "
      << (why.empty() ? "a chunk from either end (zig-zag): all see equally many keys"
                      : "one part, in order: " + why)
      << "\n";
}

std::string planText(const PlanFacts &facts) {
  const plan::SearchResult &search = facts.search;
  std::ostringstream out;
  out << facts.problem.model << ": " << parametersText(facts.problem) << ", global batch "
      << facts.globalBatch() << paddedSamplesText(facts.paddedSamples) << ", "
      << devicesText(facts.cluster, facts.devices) << "\n";
  printConditions(out, facts);
  out << "mesh ";
  if (search.plan.degrees.pp > 1)
    out << " pp=" << search.plan.degrees.pp;
  std::vector<MeshPart> parts = meshParts(facts);
  for (const MeshPart &part : parts) {
    if (!part.ranks.empty())
      out << "\n  " << part.ranks << ":";
    for (const sharding::MeshAxis &axis : part.plan->mesh.axes)
      out << " " << axis.name << "=" << axis.size;
  }
  if (facts.devices == 1)
    out << " one device";
  out << "\n";
  printSequence(out, facts);
  for (const MeshPart &part : parts)
    printParameters(out, facts, part);
  printCollectives(out, facts);
  printStages(out, facts);
  printMemory(out, search.predicted);
  printTime(out, facts);
  out << "chosen     " << padded(degreesText(search.plan.degrees), 12) << "  "
      << predictionText(search.predicted) << "\n";
  for (const auto &alternative : search.alternatives)
    out << "runner-up  " << padded(degreesText(alternative.degrees), 12) << "  "
        << predictionText(alternative.predicted) << "\n";
  if (std::string advice = adviceText(search.advice, facts.devices); !advice.empty())
    out << "advice     " << advice << "\n";
  if (search.optimalityGap > 0)
    out << "the shardings are within " << 100 * search.optimalityGap << " % of optimal\n";
  return out.str();
}

} // namespace dtc::report
