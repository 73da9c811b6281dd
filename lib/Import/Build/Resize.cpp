#include "dtc/Import/Build/Resize.h"

#include "dtc/Import/Build/Indices.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

/// The weight of an element by its distance.
static double kernelAt(double distance, const Interpolation &form) {
  const double t = std::abs(distance), slope = form.slope;
  if (!form.cubic)
    return std::max(0.0, 1 - t);
  if (t <= 1)
    return ((slope + 2) * t - (slope + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * slope - 4 * slope : 0;
}

std::vector<Share> interpolationShares(const Interpolation &form, double position, int64_t size) {
  const double low = std::floor(position);
  const int64_t first = int64_t(std::floor((form.cubic ? -2 : -1) / form.shrink)) + 1;
  std::vector<Share> shares;
  double sum = 0;
  for (int64_t i = first; i <= 1 - first; ++i) {
    const int64_t index = int64_t(low) + i;
    const bool outside = index < 0 || index >= size;
    const double weight = form.excludesOutside && outside
                              ? 0
                              : kernelAt((low + double(i) - position) * form.shrink, form);
    shares.push_back({index, weight});
    sum += weight;
  }
  const bool normalizes = (form.shrink != 1 || form.excludesOutside) && sum != 0;
  for (Share &share : shares)
    share.weight /= normalizes ? sum : 1;
  return shares;
}

/// Each element `times` times in a row.
static Value repeatElements(Emitter &emit, Value value, int64_t dim, int64_t times) {
  Shape lifted(tensorType(value).getShape()), merged = lifted;
  lifted.insert(lifted.begin() + dim + 1, 1);
  merged[dim] *= times;
  value = reshape(emit, value, lifted);
  lifted[dim + 1] = times;
  return reshape(emit, broadcastTo(emit, value, lifted), merged);
}

Value resizeByIndices(Emitter &emit, Value value, int64_t dim, std::vector<int64_t> indices) {
  const int64_t from = tensorType(value).getDimSize(dim), to = int64_t(indices.size()),
                times = to / from;
  bool repeats = times * from == to;
  for (int64_t i = 0; i < to; ++i) {
    indices[i] = std::clamp<int64_t>(indices[i], 0, from - 1);
    repeats = repeats && indices[i] == i / times;
  }
  if (repeats)
    return repeatElements(emit, value, dim, times);
  Host at = HostTensor::ofInts(emit.getI64Type(), {to}, std::move(indices));
  return gatherAtConstants(emit, value, *at, dim);
}

LogicalResult checkShares(Conversion &node, Value value, int64_t dim, int64_t to) {
  const int64_t from = tensorType(value).getDimSize(dim);
  if (!fitsConstant(elementOf(value), {to, from}))
    return node.error() << "interpolates too large a dimension: " << from;
  return success();
}

Value resizeByShares(Conversion &node, Value value, int64_t dim,
                     ArrayRef<std::vector<Share>> shares) {
  const Type element = elementOf(value);
  const int64_t from = tensorType(value).getDimSize(dim), to = int64_t(shares.size());
  const Shape sizes = {to, from};
  HostTensor weights(element, sizes, sizes);
  for (int64_t i = 0; i < to; ++i)
    for (const Share &share : shares[i])
      weights.floats[i * from + std::clamp<int64_t>(share.index, 0, from - 1)] += share.weight;
  for (double &weight : weights.floats)
    weight = roundTo(element, weight);
  weights.compress();
  const int64_t rank = tensorType(value).getRank();
  Shape lhs, result;
  for (int64_t i = 0; i < rank; ++i) {
    lhs.push_back(i == dim ? rank : i);
    result.push_back(i);
  }
  Value matrix = toValue(node.emit, node.emit.getLoc(), weights);
  return contract(node.emit, value, lhs, matrix, {dim, rank}, result);
}

} // namespace dtc::import
