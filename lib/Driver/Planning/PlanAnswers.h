// What commands and callers are told of a plan.
#pragma once

#include "../Phases.h"

#include "dtc/Plan/Explain/ShardingExplanation.h"
#include "dtc/Report/PlanFacts.h"
#include "dtc/Report/ToolSettings.h"

namespace dtc::driver {

using Subjects = std::vector<plan::ShardingExplanation>;

report::PlanFacts factsOf(const Request &request, const Planned &planned);

/// The phases up to the plan.
Outcome<Planned> planModel(Environment &env, const Request &request, const import::ModelFile &file);

/// What slots for the worst case cost, where that is much.
std::optional<std::string> costOfSlots(const plan::Problem &problem);

std::vector<std::string> warningsOf(const Request &request, const Planned &planned);

/// The file of `--save-plan`.
std::string yamlOf(const Planned &planned);

/// The page of `--report`.
plan::Result<std::string> pageOf(const Request &request, const Planned &planned);

/// A tensor or node of `--explain=NAME`.
Outcome<Subjects> explainName(const Request &request, const Planned &planned,
                              const std::string &name);

/// What `dtc plan` prints.
std::string planText(const Request &request, const Planned &planned, const Subjects &subjects);
std::string planJson(const Request &request, const Planned &planned, const Subjects &subjects);

/// The plan in the settings of the program of --for.
report::ToolPlan toolPlanOf(const Request &request, const Planned &planned);

} // namespace dtc::driver
