// The input of a step that dtc-run makes itself: the key of each sample, by which dropout draws.
#pragma once

namespace dtc::rt {

inline constexpr const char *kDropoutKeys = "dropout_keys";

} // namespace dtc::rt
