#include "dtc/Replay/ReplayPrograms.h"

#include "RankReplay.h"
#include "StoredParts.h"

namespace dtc::replay {

/// The second step finds what the first one left, and what an evaluation between them did.
static std::vector<uint32_t> stepsOf(const std::vector<Role> &roles) {
  for (const Role &role : roles)
    for (const auto &function : role.program->functions)
      for (const auto &instruction : function->instructions)
        if (instruction->training_only)
          return {0, kEvaluation, 1};
  return {0, 1};
}

std::string replayPrograms(const std::vector<Role> &roles) {
  RankClasses classes;
  if (std::string wrong = classes.build(roles); !wrong.empty())
    return wrong;
  std::vector<ProgramFacts> programs;
  for (size_t role = 0; role < roles.size(); ++role) {
    programs.emplace_back(*roles[role].program);
    if (std::string wrong = programs.back().prepare(); !wrong.empty())
      return "role " + std::to_string(role) + ": " + wrong;
    if (std::string wrong = checkStoredParts(roles[role]); !wrong.empty())
      return "role " + std::to_string(role) + ": " + wrong;
  }
  std::vector<Traffic> traffic(classes.size());
  const std::vector<uint32_t> steps = stepsOf(roles);
  for (size_t i = 0; i < classes.size(); ++i)
    if (std::string wrong =
            RankReplay(classes, i, programs[classes.roleIndex(i)]).run(traffic[i], steps);
        !wrong.empty())
      return wrong;
  for (auto compare : {compareMessages, compareGroupCalls, findDeadlock})
    if (std::string wrong = compare(classes, traffic); !wrong.empty())
      return wrong;
  return {};
}

} // namespace dtc::replay
