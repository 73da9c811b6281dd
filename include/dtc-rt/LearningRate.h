// The learning rate of each step: warm-up, then constant, linear or cosine.
#pragma once

#include "dtc-rt/Program/Manifest.h"

namespace dtc::rt {

/// The rate at step `step`, counted from 1. It is lr * step / warmup during warm-up, then constant,
/// linear or cosine. The last two go from lr to the least at the total number of steps, where the
/// rate stays.
double learningRateAt(const LearningRateInfo &info, int64_t step);

} // namespace dtc::rt
