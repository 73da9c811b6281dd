#include "dtc-rt/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtc::rt {

double learningRateAt(const LearningRateInfo &info, int64_t step) {
  using Schedule = LearningRateInfo::Schedule;
  double at = static_cast<double>(step), warmup = static_cast<double>(info.warmupSteps);
  if (step < info.warmupSteps)
    return info.lr * at / warmup;
  if (info.schedule == Schedule::Constant)
    return info.lr;
  double length = static_cast<double>(info.totalSteps) - warmup;
  double done = length > 0 ? std::clamp((at - warmup) / length, 0.0, 1.0) : 1.0;
  double left = info.schedule == Schedule::Linear
                    ? 1.0 - done
                    : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return info.minLr + (info.lr - info.minLr) * left;
}

} // namespace dtc::rt
