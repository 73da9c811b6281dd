#include "dtc/Report/Explanation.h"

#include "dtc/Report/Comparison.h"
#include "dtc/Report/Failure.h"
#include "dtc/Report/Words.h"

#include <cmath>
#include <sstream>

namespace dtc::report {

using plan::Explanation;
using plan::PinPrice;
using plan::Rival;

static std::string heldText(const plan::MemoryUse &difference) {
  double bytes = double(difference.total());
  if (std::abs(bytes) < double(1 << 20))
    return "";
  return std::string("; holds ") + formatBytes(std::abs(bytes)) +
         (bytes > 0 ? " more a rank" : " less a rank");
}

static std::string shortText(const plan::Difference &difference) {
  return formatBytes(difference.shortBytes) +
         (difference.isHostShort ? " of host memory short" : " short");
}

std::string lossText(const Rival &rival, const Explanation &explanation) {
  const plan::Difference &difference = rival.difference;
  std::string parts = partsText(difference.parts, explanation.predicted.stepSeconds);
  std::string text = slowerText(difference.share) + (parts.empty() ? "" : " (" + parts + ")");
  if (!rival.fits())
    return "doesn't fit, " + shortText(difference) + "; would be " + text;
  return text + heldText(difference.memory);
}

static void printChosen(std::ostream &out, const Explanation &explanation) {
  const plan::Prediction &predicted = explanation.predicted;
  out << "why this plan: " << degreesText(explanation.chosen) << "\n"
      << "  A step takes " << formatSeconds(predicted.stepSeconds) << ": "
      << spentText(predicted.parts) << ".\n"
      << "  A rank holds " << formatBytes(double(predicted.memory.total())) << " of "
      << formatBytes(predicted.memoryCapacity)
      << (predicted.fits() ? "" : ", which doesn't fit") << ".\n";
}

static void printRunnersUp(std::ostream &out, const Explanation &explanation) {
  out << "runners-up: the best other plans, and what they lose where\n";
  if (explanation.runnersUp.empty())
    out << "  None: no other plan fits and is nearly as fast"
        << (explanation.pins.empty() ? "" : " under what is pinned") << ".\n";
  for (const Rival &rival : explanation.runnersUp)
    out << "  " << degreesText(rival.degrees) << ": " << lossText(rival, explanation) << ".\n";
}

static void printChanges(std::ostream &out, const Explanation &explanation) {
  if (explanation.changes.empty())
    return;
  out << "one choice taken otherwise, the rest kept\n";
  for (const plan::Change &change : explanation.changes) {
    out << "  " << change.setting << ": ";
    if (change.rival)
      out << lossText(*change.rival, explanation) << ".\n";
    else
      out << "not possible, " << failureText(*change.refusal) << ".\n";
  }
}

std::string pinText(const PinPrice &pin, const Explanation &explanation) {
  if (!pin.without)
    return pin.pin + " is free: without it no plan is found that is faster.";
  std::string other = degreesText(pin.without->degrees);
  if (!explanation.predicted.fits())
    return pin.pin + " costs the fit: with " + pin.instead + " (" + other + ") the plan fits.";
  // What the pin costs is the difference the other way round.
  double share = -pin.without->difference.share;
  return pin.pin + " costs " + formatPercent(share / (1 - share)) + " against " + pin.instead +
         ": without the pin " + other + " would be " + lossText(*pin.without, explanation) + ".";
}

static void printPins(std::ostream &out, const Explanation &explanation) {
  if (explanation.pins.empty())
    return;
  out << "pins: what is fixed by hand costs\n";
  for (const PinPrice &pin : explanation.pins)
    out << "  " << pinText(pin, explanation) << "\n";
  if (explanation.unpinned)
    out << "  Without any pin " << degreesText(explanation.unpinned->degrees) << " would be "
        << lossText(*explanation.unpinned, explanation) << ".\n";
}

static void printSubject(std::ostringstream &out, const plan::ShardingExplanation &subject,
                         const plan::Degrees &degrees) {
  std::string where;
  if (subject.group)
    where = " on " + groupRanksText(degrees, *subject.group) +
            " (tp=" + std::to_string(inGroup(degrees, *subject.group).tp) + ")";
  out << "why " << subject.name << " is sharded so" << where << ": " << subject.kind << " of "
      << subject.shape << ", " << subject.ways.front().sharding << "\n";
  if (subject.ways.size() == 1)
    out << "  No other way is possible: only tensor parallelism of parameters and ops has a "
           "choice.\n";
  for (const plan::ShardingWay &way : subject.ways) {
    if (way.chosen)
      continue;
    out << "  " << way.sharding << ": ";
    if (way.difference) {
      const plan::Difference &difference = *way.difference;
      double step = difference.share != 0 ? difference.seconds / difference.share : 0;
      std::string parts = partsText(difference.parts, step);
      out << slowerText(difference.share) << (parts.empty() ? "" : " (" + parts + ")")
          << heldText(difference.memory)
          << (difference.shortBytes > 0
                  ? "; doesn't fit, " + shortText(difference)
                  : "")
          << ".\n";
    } else {
      out << "not possible, " << way.refusal << ".\n";
    }
  }
}

std::string subjectText(const std::vector<plan::ShardingExplanation> &subjects,
                        const plan::Degrees &degrees) {
  std::ostringstream out;
  for (const plan::ShardingExplanation &subject : subjects)
    printSubject(out, subject, degrees);
  return out.str();
}

std::string explanationText(const Explanation &explanation) {
  std::ostringstream out;
  printChosen(out, explanation);
  printRunnersUp(out, explanation);
  printChanges(out, explanation);
  printPins(out, explanation);
  return out.str();
}

} // namespace dtc::report
