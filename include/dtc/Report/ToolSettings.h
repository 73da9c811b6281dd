// What dtc says about a plan in the settings of the program that is to run it.
#pragma once

#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Plan/Tools/ToolSettings.h"
#include "dtc/Report/PlanFacts.h"

#include <nlohmann/json.hpp>

namespace dtc::report {

/// A plan for a program.
struct ToolPlan {
  const plan::Preset &preset;
  plan::Facts facts;
  std::vector<plan::SaidSetting> settings; ///< each with what it means and what others would cost
  double headroom = 0;                     ///< the share of each device that is kept free
};

ToolPlan toolPlan(const plan::Preset &preset, const PlanFacts &facts, const std::string &precision,
                  double headroom, const plan::Explanation *explanation);

/// The facts beside the plan.
plan::RunFacts runFacts(const PlanFacts &facts, const std::string &precision);

/// Between which seconds nine in ten steps lie, as the runs of the validation did.
std::pair<double, double> stepInterval(const plan::Preset &preset, double seconds);

/// The settings, and how sure the figures are.
std::string toolText(const ToolPlan &tool, const plan::Prediction &predicted);
/// The key `for` of `dtc plan --json`.
nlohmann::ordered_json toolJson(const ToolPlan &tool, const plan::Prediction &predicted);

/// What settings that were read miss against the best plan for the program.
std::string betterText(const ToolPlan &read, const PlanFacts &readFacts, const ToolPlan &best,
                       const PlanFacts &bestFacts);

} // namespace dtc::report
