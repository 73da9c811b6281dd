#include "dtc/Report/Comparison.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace dtc::report {

using plan::Difference;
using plan::Prediction;
using plan::StepParts;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string plusMinus(double value, const std::string &magnitude) {
  return (value < 0 ? "-" : "+") + magnitude;
}

/// What a step is spent on, by name; those who read it know no more of plans.
static std::vector<std::pair<std::string, double>> named(const StepParts &parts) {
  std::vector<std::pair<std::string, double>> result = {
      {"computing", parts.compute},
      {"recomputing activations", parts.recompute},
      {"updating parameters", parts.update},
      {"pipeline bubble", parts.bubble}};
  for (const auto &[axis, seconds] : parts.exposed)
    result.emplace_back("waiting for communication over " + axis, seconds);
  return result;
}

static std::vector<std::pair<std::string, double>> largestFirst(const StepParts &parts) {
  auto list = named(parts);
  std::stable_sort(list.begin(), list.end(), [](const auto &a, const auto &b) {
    return std::abs(a.second) > std::abs(b.second);
  });
  return list;
}

std::string spentText(const StepParts &parts) {
  std::string text;
  for (const auto &[name, seconds] : largestFirst(parts))
    if (seconds >= 0.001 * parts.total())
      text += (text.empty() ? "" : ", ") + formatSeconds(seconds) + " " + name + " (" +
              formatPercent(seconds / parts.total()) + ")";
  return text;
}

std::string partsText(const StepParts &difference, double stepSeconds) {
  std::string text;
  for (const auto &[name, seconds] : largestFirst(difference)) {
    bool counts = std::abs(seconds) >= 0.01 * stepSeconds;
    if (std::abs(seconds) < 1e-9 * stepSeconds || (!counts && !text.empty()))
      break;
    text += (text.empty() ? "" : ", ") +
            plusMinus(seconds, formatSeconds(std::abs(seconds))) + " " + name;
  }
  return text;
}

std::string slowerText(double share) {
  if (std::abs(share) < 0.0005)
    return "equally fast";
  return formatPercent(std::abs(share)) + (share > 0 ? " slower" : " faster");
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {

using Cells = std::vector<std::string>;

class Table {
public:
  void row(std::string name, std::string a, std::string b, std::string change = "") {
    rows.push_back({std::move(name), std::move(a), std::move(b), std::move(change)});
  }
  void bytes(const std::string &name, int64_t a, int64_t b) {
    if (a == 0 && b == 0)
      return;
    row("  " + name, formatBytes(double(a)), formatBytes(double(b)),
        a == b ? "" : plusMinus(double(b - a), formatBytes(std::abs(double(b - a)))));
  }
  std::string str() const {
    std::vector<size_t> widths(4, 0);
    for (const Cells &cells : rows)
      for (size_t i = 0; i < cells.size(); ++i)
        widths[i] = std::max(widths[i], cells[i].size());
    std::string text;
    for (const Cells &cells : rows) {
      std::string line;
      for (size_t i = 0; i < cells.size(); ++i)
        line += cells[i] + std::string(widths[i] - cells[i].size() + 2, ' ');
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

private:
  std::vector<Cells> rows;
};

} // namespace

static const Prediction &predictionOf(const Compared &plan) {
  return plan.facts.search.predicted;
}
static const plan::Degrees &degreesOf(const Compared &plan) {
  return plan.facts.search.plan.degrees;
}

static std::string change(double a, double b) {
  return a > 0 && a != b ? plusMinus(b - a, formatPercent(std::abs(b - a) / a)) : "";
}

static std::string fitText(const Prediction &predicted) {
  return predicted.fits() ? "yes" : "no, " + shortText(predicted);
}

static void addSpeed(Table &table, const Compared &a, const Compared &b) {
  const Prediction &first = predictionOf(a), &second = predictionOf(b);
  int64_t samplesA = degreesOf(a).samples(), samplesB = degreesOf(b).samples();
  table.row("global batch", std::to_string(samplesA), std::to_string(samplesB));
  table.row("step time", formatSeconds(first.stepSeconds), formatSeconds(second.stepSeconds),
            change(first.stepSeconds, second.stepSeconds));
  Rates ratesA = ratesOf(first, degreesOf(a), a.facts);
  Rates ratesB = ratesOf(second, degreesOf(b), b.facts);
  if (ratesA.tokens > 0)
    table.row("tokens/s a device", std::to_string(std::llround(ratesA.tokens)),
              std::to_string(std::llround(ratesB.tokens)), change(ratesA.tokens, ratesB.tokens));
  if (ratesA.mfu > 0)
    table.row("MFU", formatPercent(ratesA.mfu), formatPercent(ratesB.mfu),
              change(ratesA.mfu, ratesB.mfu));
}

/// By name: the plans may communicate over different degrees.
static void addParts(Table &table, const Prediction &a, const Prediction &b) {
  auto first = named(a.parts), second = named(b.parts);
  for (const auto &[name, seconds] : second)
    if (std::none_of(first.begin(), first.end(),
                     [&, &known = name](const auto &part) { return part.first == known; }))
      first.emplace_back(name, 0);
  for (const auto &[name, seconds] : first) {
    double other = 0;
    for (const auto &[known, value] : second)
      if (known == name)
        other = value;
    if (seconds > 0 || other > 0)
      table.row("  " + name, formatSeconds(seconds), formatSeconds(other),
                plusMinus(other - seconds, formatSeconds(std::abs(other - seconds))));
  }
}

static std::string callsText(const plan::CollectiveTotal &total) {
  if (total.count == 0)
    return "none";
  return std::to_string(total.count) + " calls, " + formatBytes(total.bytes) + ", " +
         formatSeconds(total.seconds);
}

static void addCollectives(Table &table, const Prediction &a, const Prediction &b) {
  std::vector<plan::CollectivePair> pairs = differingCollectives(a, b);
  table.row("collectives that differ, a step and rank",
            pairs.empty() ? "none" : "", "");
  for (const plan::CollectivePair &pair : pairs) {
    std::string name = pair.a.send ? "send" : collectiveName(pair.a.kind);
    table.row("  " + name + " over " + pair.a.axis, callsText(pair.a), callsText(pair.b));
  }
}

static std::string verdict(const Compared &a, const Compared &b) {
  const Prediction &first = predictionOf(a), &second = predictionOf(b);
  Difference difference =
      differenceOf(second, degreesOf(b).samples(), first, degreesOf(a).samples());
  std::string text;
  if (first.fits() != second.fits())
    text = std::string(first.fits() ? "A" : "B") + " wins: " + (first.fits() ? "B" : "A") +
           " doesn't fit; B would be " + slowerText(difference.share);
  else if (std::abs(difference.share) < 0.0005)
    text = "A and B are equally fast";
  else
    text = std::string(difference.share > 0 ? "A" : "B") + " wins: B is " +
           slowerText(difference.share);
  std::string parts = partsText(difference.parts, first.stepSeconds);
  return text + (parts.empty() ? "" : " (" + parts + ")") + ".\n";
}

std::string comparisonText(const Compared &a, const Compared &b) {
  const Prediction &first = predictionOf(a), &second = predictionOf(b);
  std::ostringstream out;
  out << a.facts.problem.model << ": " << a.facts.problem.parameterElements() << " parameters, "
      << devicesText(a.facts.cluster, a.facts.devices) << "\n";
  Table table;
  table.row("", "A: " + a.name, "B: " + b.name, "B against A");
  table.row("plan", degreesText(degreesOf(a)), degreesText(degreesOf(b)));
  table.row("fits", fitText(first), fitText(second));
  addSpeed(table, a, b);
  table.row("where the step goes", "", "");
  addParts(table, first, second);
  const plan::MemoryUse &here = first.memory, &there = second.memory;
  table.row("memory a rank, of " + formatBytes(first.memoryCapacity), "", "");
  table.bytes("parameters", here.parameters, there.parameters);
  table.bytes("gradients", here.gradients, there.gradients);
  table.bytes("optimizer", here.optimizer, there.optimizer);
  table.bytes("data", here.data, there.data);
  table.bytes("activations", here.activations, there.activations);
  table.bytes("context and communication buffers", here.reserved, there.reserved);
  table.bytes("total", here.total(), there.total());
  addCollectives(table, first, second);
  out << table.str() << verdict(a, b);
  return out.str();
}

} // namespace dtc::report
