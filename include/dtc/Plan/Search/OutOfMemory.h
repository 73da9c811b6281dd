// What is said when no plan fits.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::plan {

/// How what `describeShortage` says begins.
inline constexpr const char *kNoPlanFits = "no plan fits: ";

/// What is short, where and by how much, for the plan that comes closest.
std::string describeShortage(const SearchResult &closest);

/// What would help where nothing fits, cheapest first, as the end of a message: another value for
/// something that is pinned, nothing pinned, more devices. "" where none of these do.
std::string suggestRemedy(const Problem &problem, const Cluster &cluster,
                          const SearchOptions &options);

/// Why a SPEC can't be honoured whatever the memory, or "".
std::string unsupportedSpec(const Problem &problem, const SearchOptions &options);

/// What stands for the meshes of all stages where they differ.
inline constexpr const char *kGroupsKey = "stage_groups";

/// "tp=8": what a plan has for a key of the SPEC.
std::string setting(const std::string &key, const Degrees &degrees);

/// For each key that is pinned: it, as in a SPEC, and the others.
std::vector<std::pair<std::string, Spec>> eachKeyLess(const Spec &spec);

} // namespace dtc::plan
