#pragma once

#include "dtc-rt/Manifest.h"

namespace dtc::rt {

/// The rate at step `step`, counted from 1: lr * step / warmup during warm-up,
/// then constant, or linear or cosine from lr to the least at the total number
/// of steps, where it stays.
double learningRateAt(const LearningRateInfo &info, int64_t step);

} // namespace dtc::rt
