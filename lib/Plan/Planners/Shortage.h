// What is said when no plan fits.
#pragma once

#include "dtc/Plan/Search.h"

namespace dtc::plan {

/// What is short, where and by how much, for the plan that comes closest.
std::string shortage(const SearchResult &closest);

/// Why a SPEC can't be honoured whatever the memory, or "".
std::string unsupportedSpec(const SearchOptions &options);

} // namespace dtc::plan
