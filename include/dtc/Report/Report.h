// `--report`: one page about a plan, for people.
//
// HTML with its drawings inside and no script. Whatever a model file has for names, a content
// security policy forbids it everything but its own style sheet. Its size is bounded, whatever the
// model, the cluster and the schedule. What is alike is folded. What is too much is left out, and
// the page says so. The same facts give the same page.
#pragma once

#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Report/PlanFacts.h"

#include <functional>

namespace dtc::report {

/// SHA-256 of a text in base64.
using Digest = std::function<std::string(const std::string &)>;

/// The page; refused where the plan's schedule can't be simulated (Usage). An
/// explanation, where there is one, adds what other choices and pins cost.
plan::Result<std::string> reportPage(const PlanFacts &facts, const Digest &digest,
                                     const plan::Explanation *explanation = nullptr);

} // namespace dtc::report
