#include "dtc/Sharding/Strides.h"

namespace dtc::sharding {
namespace {

/// One dimension of a strided grid.
struct Dim {
  int64_t size, stride;
};

} // namespace

Strided dense(std::span<const int64_t> shape) {
  Strided result{0, std::vector<int64_t>(shape.size())};
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    result.strides[dim] = stride;
  return result;
}

Strided readOf(const Strided &operand, std::span<const DimRead> reads) {
  Strided result{operand.offset, {}};
  for (const DimRead &read : reads) {
    const int64_t stride = read.dim < 0 ? 0 : operand.strides[read.dim];
    result.offset += read.start * stride;
    result.strides.push_back(read.step * stride);
  }
  return result;
}

std::optional<Strided> placeOfOperand(std::span<const int64_t> operandShape,
                                      std::span<const DimRead> reads,
                                      std::span<const int64_t> resultShape, const Strided &result) {
  if (reads.size() != operandShape.size())
    return std::nullopt;
  Strided place{result.offset, std::vector<int64_t>(operandShape.size())};
  std::vector<bool> isRead(operandShape.size());
  for (size_t dim = 0; dim < reads.size(); ++dim) {
    const auto &[from, start, step] = reads[dim];
    if (from < 0 || start != 0 || step != 1 || operandShape[from] != resultShape[dim] ||
        isRead[from])
      return std::nullopt;
    isRead[from] = true;
    place.strides[from] = result.strides[dim];
  }
  return place;
}

/// The grid with neighbours that lie densely joined, dimensions of size 1 gone.
static std::vector<Dim> joinDims(std::span<const int64_t> shape,
                                 const std::vector<int64_t> &strides) {
  std::vector<Dim> joined;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t size = shape[dim], stride = strides[dim];
    if (size == 1)
      continue;
    if (!joined.empty() && joined.back().stride == stride * size)
      joined.back() = {joined.back().size * size, stride};
    else
      joined.push_back({size, stride});
  }
  return joined;
}

std::optional<Strided> reshaped(std::span<const int64_t> shape, const Strided &place,
                                std::span<const int64_t> newShape) {
  std::vector<Dim> dims = joinDims(shape, place.strides);
  Strided result{place.offset, std::vector<int64_t>(newShape.size(), 1)};
  for (size_t dim = newShape.size(); dim-- > 0;) {
    const int64_t size = newShape[dim];
    if (size == 1)
      continue;
    if (dims.empty() || dims.back().size % size != 0)
      return std::nullopt;
    result.strides[dim] = dims.back().stride;
    dims.back() = {dims.back().size / size, dims.back().stride * size};
    if (dims.back().size == 1)
      dims.pop_back();
  }
  return result;
}

std::optional<Strided> alignedRows(std::span<const int64_t> shape, Strided place,
                                   int64_t alignment) {
  if (shape.empty() || alignment <= 0 || place.offset % alignment != 0)
    return std::nullopt;
  const size_t last = shape.size() - 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    int64_t &stride = place.strides[dim];
    if (shape[dim] == 1)
      stride = dim == last ? 1 : shape[dim + 1] * place.strides[dim + 1];
    if (dim == last ? stride != 1 : stride <= 0 || stride % alignment != 0)
      return std::nullopt;
  }
  return place;
}

} // namespace dtc::sharding
