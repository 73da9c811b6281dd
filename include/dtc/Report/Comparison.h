// Two plans side by side, and what one loses against the other, in words.
#pragma once

#include "dtc/Plan/Explain/Compare.h"
#include "dtc/Report/PlanFacts.h"

namespace dtc::report {

/// "+1.37 s communication over tp, -210 ms bubble": the parts that make up the difference, largest
/// first. Those of less than a hundredth of `stepSeconds` are left out unless there is nothing
/// else. "" where nothing differs.
std::string partsText(const plan::StepParts &difference, double stepSeconds);

/// "23.1 s computing (75.2 %), 251 ms waiting for communication over dp (0.8 %)".
std::string spentText(const plan::StepParts &parts);

/// "4.9 % slower", "1.0 % faster", "equally fast".
std::string slowerText(double share);

struct Compared {
  std::string name; ///< as the user gave it: a file or a SPEC
  PlanFacts facts;
};

/// The table of `dtc plan --compare`.
std::string comparisonText(const Compared &a, const Compared &b);

} // namespace dtc::report
