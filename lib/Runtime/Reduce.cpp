#include "dtc-rt/Reduce.h"

#include <algorithm>

namespace dtc::rt {
namespace {

/// Elements reduced at a time: sums and the converted source stay in the first cache.
constexpr int64_t kPiece = 1024;

template <typename T> void combine(Reduction kind, T *sums, const T *values, int64_t count) {
  switch (kind) {
  case Reduction::Sum:
    for (int64_t i = 0; i < count; ++i)
      sums[i] += values[i];
    return;
  // A NaN anywhere stays: it must not vanish on the way to the check of the loss.
  case Reduction::Max:
    for (int64_t i = 0; i < count; ++i)
      sums[i] = values[i] > sums[i] || values[i] != values[i] ? values[i] : sums[i];
    return;
  case Reduction::Min:
    for (int64_t i = 0; i < count; ++i)
      sums[i] = values[i] < sums[i] || values[i] != values[i] ? values[i] : sums[i];
    return;
  }
}

/// `wide`: the type that sums are kept in, T's own or a wider one.
template <typename T>
void reducePieces(Reduction kind, DType dtype, DType wide, std::span<const char *const> sources,
                  std::span<char *const> targets, int64_t begin, int64_t count) {
  alignas(64) T sums[kPiece];
  alignas(64) T values[kPiece];
  int64_t bytes = sizeOf(dtype);
  for (int64_t done = 0; done < count; done += kPiece) {
    int64_t size = std::min(kPiece, count - done);
    int64_t offset = (begin + done) * bytes;
    convert(wide, reinterpret_cast<char *>(sums), dtype, sources[0] + offset, size);
    for (const char *source : sources.subspan(1)) {
      const T *terms = values;
      if (dtype == wide)
        terms = reinterpret_cast<const T *>(source + offset);
      else
        convert(wide, reinterpret_cast<char *>(values), dtype, source + offset, size);
      combine(kind, sums, terms, size);
    }
    for (char *target : targets)
      convert(dtype, target + offset, wide, reinterpret_cast<const char *>(sums), size);
  }
}

} // namespace

bool isReducible(DType dtype) {
  switch (dtype) {
  case DType::F32:
  case DType::F64:
  case DType::BF16:
  case DType::F16:
  case DType::I64:
  case DType::I32:
    return true;
  default:
    return false;
  }
}

void reduceInto(Reduction kind, DType dtype, std::span<const char *const> sources,
                std::span<char *const> targets, int64_t begin, int64_t count) {
  if (dtype == DType::F64)
    return reducePieces<double>(kind, dtype, DType::F64, sources, targets, begin, count);
  if (isFloat(dtype))
    return reducePieces<float>(kind, dtype, DType::F32, sources, targets, begin, count);
  reducePieces<int64_t>(kind, dtype, DType::I64, sources, targets, begin, count);
}

} // namespace dtc::rt
