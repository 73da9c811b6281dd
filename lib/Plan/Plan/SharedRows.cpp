#include "dtc/Plan/Plan/SharedRows.h"

#include "dtc/Plan/Plan/Problem.h"

#include <algorithm>

namespace dtc::plan {

std::string whyRowsStayWhole(const Problem &problem, const Degrees &degrees) {
  auto chosen = std::find_if(problem.ops.begin(), problem.ops.end(),
                             [](const Op &op) { return op.groupedExperts >= 0; });
  if (chosen == problem.ops.end() || (degrees.ep == 1 && degrees.cp == 1))
    return "";
  const std::string &at = chosen->location.empty() ? chosen->name : chosen->location;
  return "without slots, ranks can't share the rows that choose their experts at " + at + ": " +
         (degrees.ep > 1 ? "ep=" + std::to_string(degrees.ep) : "cp=" + std::to_string(degrees.cp));
}

} // namespace dtc::plan
