// What is said when no plan fits.
#pragma once

#include "dtc/Plan/Search.h"

namespace dtc::plan {

/// How what `shortage` says begins.
inline constexpr const char *kNoPlanFits = "no plan fits: ";

/// What is short, where and by how much, for the plan that comes closest.
std::string shortage(const SearchResult &closest);

/// Why a SPEC can't be honoured whatever the memory, or "".
std::string unsupportedSpec(const Problem &problem, const SearchOptions &options);

/// What stands for the meshes of all stages where they differ.
inline constexpr const char *kGroupsKey = "stage_groups";

/// For each key that is pinned: it, as in a SPEC, and the others.
std::vector<std::pair<std::string, Spec>> eachKeyLess(const Spec &spec);

} // namespace dtc::plan
