// What an artifact and a checkpoint say of their model, so that others of the same shapes are told
// apart.
//
// A trait is a text under a name, written by lib/Driver/ModelTraits.cpp. Some say the same in other
// words, as files of one model round their constants otherwise:
//
//   scale of scores    0.125             and 0.12499
//   windows            all of 16 keys    and 20 of 32 keys (AttentionWindows.h)
//   results            input 1x16 of 8x16: 0.5 2  and input 1x32 of 8x32: 0.4 1
//
// These results say nothing of each other: where all 16 positions matter, so would more. From 4
// positions of 16 the same must follow as from 4 of 32, and from all 32.
#pragma once

#include <string>
#include <vector>

namespace dtc::io {

inline constexpr const char *kMasksTrait = "masks";
inline constexpr const char *kScaleTrait = "scale of scores";
inline constexpr const char *kAnglesTrait = "smallest rotary angle";
/// dtc/Interpreter/DrawnResults.h. Without a word of what differs, so it is compared last.
inline constexpr const char *kResultsTrait = "results";

/// Numbers between semicolons.
std::string numbersText(const std::vector<double> &numbers);
/// Angles of inputs of these sizes. Some models turn positions by parts of the whole length.
std::string anglesText(const std::vector<double> &angles, const std::string &sizes);
std::string resultsText(const std::string &shapes, const std::vector<double> &values);

/// Whether models may have these texts of one trait and be the same.
bool areTraitsAlike(const std::string &name, const std::string &one, const std::string &other);

} // namespace dtc::io
