// `dtc plan --explain`: a sentence for everything that decided the plan.
#pragma once

#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Plan/Explain/ShardingExplanation.h"

namespace dtc::report {

/// "2.3 % slower (+0.7 s waiting for communication over dp); holds 14.2 GiB less a rank". Or
/// "doesn't fit, 21.0 GiB short; would be 20.1 % faster (...)".
std::string lossText(const plan::Rival &rival, const plan::Explanation &explanation);

/// "tp=8 costs 3.1 % against tp=4: without the pin ...".
std::string pinText(const plan::PinPrice &pin, const plan::Explanation &explanation);

/// One tensor or op: how it is sharded, and what every other way costs. Of plans with stage groups
/// it is for the stages of each that has it.
std::string subjectText(const std::vector<plan::ShardingExplanation> &subjects,
                        const plan::Degrees &degrees);

std::string explanationText(const plan::Explanation &explanation);

} // namespace dtc::report
