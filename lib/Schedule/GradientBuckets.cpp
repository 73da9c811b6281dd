#include "dtc/Schedule/GradientBuckets.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtc::schedule {

int64_t countBuckets(double bytes, int64_t ranks) {
  double size = std::max(kBucketBytes, kRankBucketBytes * double(ranks));
  return std::max<int64_t>(1, std::llround(std::ceil(bytes / size)));
}

int64_t countGradientSums(int64_t gradients, double bytes, int64_t ranks) {
  constexpr int64_t most = 4; // of small models: three quarters can go beside computation
  int64_t worthCalls = std::min(most, static_cast<int64_t>(bytes / kLeastBytes));
  return std::min(gradients, std::max(worthCalls, countBuckets(bytes, ranks)));
}

std::vector<size_t> splitGradients(std::span<const int64_t> bytes, int64_t calls) {
  double share = double(std::reduce(bytes.begin(), bytes.end(), int64_t(0))) / double(calls);
  std::vector<size_t> ends;
  double taken = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    taken += double(bytes[i]);
    auto left = static_cast<int64_t>(bytes.size() - i - 1);
    int64_t open = calls - static_cast<int64_t>(ends.size()) - 1;
    // The last call takes what is left, and each of the others at least one.
    if (left == 0 || (open > 0 && (taken >= share || left == open))) {
      ends.push_back(i + 1);
      taken = 0;
    }
  }
  return ends;
}

} // namespace dtc::schedule
