// The key "explanation" of `dtc plan --explain --json`.
#pragma once

#include "PlanReport.h"

#include "dtc/Plan/Explain.h"
#include "dtc/Plan/Subject.h"

namespace dtc::driver {

/// {"step_time_s", "time", "runners_up": [{"plan", "loss"}], "changes": [{"setting", "plan",
/// "loss" | "refusal"}], "pins": [{"pin", "free", "cost", "instead", "plan",
/// "loss"}], "unpinned": {"plan", "loss"} | null}; a "loss" is what the other plan
/// spends and holds beyond the chosen one, "share" of its step, "short_bytes" 0
/// where it fits, and "text" all of that as a sentence.
nlohmann::ordered_json explanationJson(const plan::Explanation &explanation);

/// Its key "subject", with --explain=NAME: {"name", "kind", "shape", "ways":
/// [{"sharding", "chosen", "cost", "peak_memory_bytes", "fits", "refusal"}]}; the cost is
/// a share of the plan's step, bytes are beyond the plan's. Of plans with stage groups also
/// {"stage_group", "other_groups"}: which of them it is about, and the same for further
/// groups whose stages have it.
nlohmann::ordered_json subjectJson(const std::vector<plan::Subject> &subjects);

} // namespace dtc::driver
