// How attention may see the parts of a sequence that other ranks of cp have.
#pragma once

#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Problem.h"

#include <string>

namespace dtc::plan {

/// Whether so many ranks may divide the heads of attention: those of keys or, where these are too
/// few, the queries of each.
bool mayExchangeHeads(const Op &op, int64_t ranks);

/// Why cp > 1 ranks can't exchange what attention needs in this way, or "".
std::string whyNoExchange(const Problem &problem, const ProblemFacts &facts,
                          ContextExchange exchange, int64_t cp);

} // namespace dtc::plan
