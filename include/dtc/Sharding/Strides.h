// Where the elements of a tensor lie in another one that is stored: an offset, and for each
// dimension a stride, in elements. Of a tensor [2, 3, 4]:
//
//   what                          shape    offset  strides
//   the whole                     2x3x4      0     12 4 1
//   its middle rows               2x1x4      4     12 4 1
//   every second of their columns 2x1x2      4     12 4 2
//   those in two dimensions       2x2        4     12 2
//   transposed                    2x2        4     2 12
//   repeated in three dimensions  5x2x2      4     0 2 12
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtc::sharding {

/// What a dimension of an op's result reads: its element i lies at `start + i * step` of dimension
/// `dim` of the operand. A `dim` of -1 repeats the operand, with a step of 0.
struct DimRead {
  int dim = 0;
  int64_t start = 0, step = 1;
  bool operator==(const DimRead &) const = default;
};

struct Strided {
  int64_t offset = 0;
  std::vector<int64_t> strides; ///< 0 repeats
};

/// A tensor in memory of its own, row-major.
Strided dense(std::span<const int64_t> shape);

/// Where a result lies that reads so of an operand that lies so.
Strided readOf(const Strided &operand, std::span<const DimRead> reads);

/// Where the operand lies if the result does so. None where the result is not all of the operand,
/// in another order.
std::optional<Strided> placeOfOperand(std::span<const int64_t> operandShape,
                                      std::span<const DimRead> reads,
                                      std::span<const int64_t> resultShape, const Strided &result);

/// The same elements in another shape, row-major. None where a new dimension would run over a seam.
std::optional<Strided> reshaped(std::span<const int64_t> shape, const Strided &place,
                                std::span<const int64_t> newShape);

/// What a library takes that reads rows by vectors: their elements lie side by side, and each row
/// begins at a multiple of `alignment`. Nothing steps along a dimension of size 1, whose stride
/// becomes that of a dense tensor. None where it isn't so.
std::optional<Strided> alignedRows(std::span<const int64_t> shape, Strided place,
                                   int64_t alignment);

} // namespace dtc::sharding
