// Buffers in which an artifact of fp16 keeps the scale of its loss. They are numbers of the
// training, not of the model: checkpoints have them, saved weights don't.
#pragma once

#include <string_view>

namespace dtc::rt {

inline constexpr std::string_view kLossScale = "dtc.loss_scale", kCleanSteps = "dtc.clean_steps",
                                  kSkippedSteps = "dtc.skipped_steps";

inline constexpr bool isLossScaling(std::string_view buffer) {
  return buffer == kLossScale || buffer == kCleanSteps || buffer == kSkippedSteps;
}

} // namespace dtc::rt
