// Whole numbers that somebody typed.
//
// They are decimal, as people read them: CLI11 alone takes 010 for eight, and cuts what is too
// large down to the largest number that fits.
#pragma once

#include <cstdint>
#include <string>

namespace dtc::io {

/// Why the text isn't a number between these two; empty where it is one. Then the text becomes the
/// way that CLI11 reads right, so that this serves as one of its validators.
std::string checkWholeNumber(std::string &text, int64_t least, uint64_t most);

} // namespace dtc::io
