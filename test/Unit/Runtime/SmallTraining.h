// The training that hand-made artifacts carry out, in plain loops. It has y = x w, mean squared
// error and SGD with rate 0.1 on 4 of 6 samples a step.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace dtc::rt::test {

inline constexpr int64_t kSamples = 6;
inline const std::vector<float> kWeight = {0.5f, -1, 2, 0.25f, -0.75f, 1};

inline std::vector<float> sampleValues(int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] = scale * std::sin(static_cast<float>(i + 1));
  return values;
}

/// What a run must give: losses, and the weight at the end.
inline std::vector<double> expectedLosses(int64_t steps, std::vector<double> &weight) {
  auto x = sampleValues(18, 1), target = sampleValues(12, 0.5f);
  weight.assign(kWeight.begin(), kWeight.end());
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<double> gradient(6, 0);
    double loss = 0;
    for (int64_t i = 0; i < 4; ++i) {
      int64_t sample = (step * 4 + i) % kSamples; // wraps around
      for (int64_t n = 0; n < 2; ++n) {
        double y = -target[sample * 2 + n];
        for (int64_t k = 0; k < 3; ++k)
          y += x[sample * 3 + k] * weight[k * 2 + n];
        loss += y * y / 8;
        for (int64_t k = 0; k < 3; ++k)
          gradient[k * 2 + n] += 2 * y / 8 * x[sample * 3 + k];
      }
    }
    losses.push_back(loss);
    for (int64_t i = 0; i < 6; ++i)
      weight[i] -= 0.1 * gradient[i];
  }
  return losses;
}

} // namespace dtc::rt::test
