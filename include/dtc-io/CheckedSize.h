// Sizes that files state: arithmetic on them never wraps.
//
//   CheckedSize bytes = CheckedSize::product(shape) * 4 + header;
//   if (!bytes || *bytes > limit)
//     return refuse(...);
//
// A size is negative never, and beyond 2^62 never: what would be is no size, and stays none
// whatever is done with it. So one check at the end is enough. Inside, where all sizes were
// checked, plain integers are used.
#pragma once

#include <cstdint>
#include <span>

namespace dtc::io {

class CheckedSize {
public:
  CheckedSize(int64_t size) : size(size), known(size >= 0 && size <= kMost) {}

  /// The number of elements of a shape. Where a dimension is 0 it is 0, however large the others
  /// are.
  static CheckedSize product(std::span<const int64_t> shape) {
    CheckedSize all = 1;
    bool isEmpty = false;
    for (int64_t size : shape) {
      if (size < 0)
        return none();
      isEmpty = isEmpty || size == 0;
    }
    if (isEmpty)
      return 0;
    for (int64_t size : shape)
      all = all * size;
    return all;
  }

  explicit operator bool() const { return known; }
  int64_t operator*() const { return size; }
  /// Whether it is a size, and this one at most.
  bool isAtMost(int64_t limit) const { return known && size <= limit; }

  friend CheckedSize operator*(CheckedSize a, CheckedSize b) {
    int64_t result;
    return !a || !b || __builtin_mul_overflow(a.size, b.size, &result) ? none() : result;
  }
  friend CheckedSize operator+(CheckedSize a, CheckedSize b) {
    int64_t result; // two of 2^62 overflow
    return !a || !b || __builtin_add_overflow(a.size, b.size, &result) ? none() : result;
  }
  friend CheckedSize operator-(CheckedSize a, CheckedSize b) {
    return !a || !b ? none() : a.size - b.size;
  }

private:
  static constexpr int64_t kMost = int64_t(1) << 62;
  static CheckedSize none() { return -1; }

  int64_t size;
  bool known;
};

} // namespace dtc::io
