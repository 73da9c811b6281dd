// Of which keys the causal attention of a model takes its windows, as a trait of models says it.
//
//   4 of 16 keys; all of 16 keys    some layers see the last 4 keys, the others all before
//
// A short sequence doesn't show a long window. So two traits differ where they do for the shorter
// sequence:
//
//   20 of 32 keys and all of 16 keys   alike: nobody sees more than 16 keys
//   4 of 16 keys and all of 32 keys    differ
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>

namespace dtc::io {

/// The trait's name.
inline constexpr const char *kWindowsTrait = "windows";

struct AttentionWindow {
  int64_t keys = 0;   ///< of the sequence
  int64_t window = 0; ///< of these, what a query sees at most
  auto operator<=>(const AttentionWindow &) const = default;
};

std::string textOf(const std::set<AttentionWindow> &windows);

/// Whether models with these texts have the same windows, as far as both show them.
bool areWindowsAlike(const std::string &one, const std::string &other);

} // namespace dtc::io
