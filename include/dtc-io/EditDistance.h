// How far a misspelt word is from one that is known.
#pragma once

#include <cstddef>
#include <string>

namespace dtc::io {

/// The least number of letters to insert, delete or replace (Levenshtein).
size_t editDistance(const std::string &a, const std::string &b);

} // namespace dtc::io
