// The input of a step that dtc-run makes itself: the key of each sample, by which dropout draws.
#pragma once

#include <cstdint>

namespace dtc::rt {

inline constexpr const char *kDropoutKeys = "dropout_keys";
/// The key of a sample of which nothing is dropped, as in evaluations. No sample that is trained on
/// has it.
inline constexpr uint64_t kKeepsAll = ~uint64_t{0};

} // namespace dtc::rt
