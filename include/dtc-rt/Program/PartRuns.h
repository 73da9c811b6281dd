// The stretches of a part that are contiguous in its tensor, by number.
//
// forEachRun visits them all. This finds any of them at once. So the runs of two parts of a tensor
// can be walked side by side without a list of either. Columns 2-3 of a 3x4 tensor:
//
//   run 0   elements 2-3 of the tensor,    0-1 of the part
//   run 1   elements 6-7                   2-3
//   run 2   elements 10-11                 4-5
//
// A tensor may be seen longer than it is (ParameterInfo::view). What it lacks is in no run: of the
// last two columns of a 3x4 view of a 3x3 tensor, run 0 is element 2, the part's element 0. The
// tensor is then given as it fills its view (ParameterInfo::filled).
#pragma once

#include "dtc-rt/Program/RankMesh.h"

#include <algorithm>
#include <utility>

namespace dtc::rt {

/// How a tensor fills a view where nothing else is said: a view of as many elements wholly, a
/// longer one in its own shape.
Dims filledOf(const Dims &shape, const Dims &view);
/// Whether a tensor of this shape may fill so much of a view: all its elements have a place there.
bool mayFill(const Dims &shape, const Dims &filled, const Dims &view);

class PartRuns {
public:
  struct Run {
    int64_t at = 0;    ///< in the tensor, row-major
    int64_t local = 0; ///< from the part's first element
    int64_t count = 0;
    int64_t end() const { return at + count; }
  };

  /// `tensor`: as it fills the view. `part`: of the view.
  PartRuns(const Dims &tensor, const Dims &view, const Part &part);
  PartRuns(const Dims &tensor, const Part &part) : PartRuns(tensor, tensor, part) {}
  int64_t size() const { return numRuns; }
  /// Ascending in `at` and in `local`.
  Run operator[](int64_t index) const;
  /// The first run that ends behind an element of the tensor, or size().
  int64_t findEndingAfter(int64_t element) const;

private:
  /// Where a row of the box begins in the tensor, and in the part's box.
  std::pair<int64_t, int64_t> rowAt(int64_t row) const;
  /// The first of so many rows that reaches beyond an element of the part's box.
  int64_t findRow(int64_t rows, int64_t element) const;

  Dims shape; ///< of runs, each along the last dimension
  Box whole, packed;
  int64_t begin, end; ///< of the part, in its box
  int64_t first, numRuns;
};

/// Calls copy(element of a's part, element of b's part, count) for every stretch of the tensor that
/// is in both parts; ascending. The views of a and b may differ.
template <typename Copy> void forEachCommonRun(const PartRuns &a, const PartRuns &b, Copy &&copy) {
  if (a.size() == 0 || b.size() == 0)
    return;
  int64_t i = a.findEndingAfter(b[0].at), j = b.findEndingAfter(a[0].at);
  while (i < a.size() && j < b.size()) {
    PartRuns::Run inA = a[i], inB = b[j];
    int64_t from = std::max(inA.at, inB.at), to = std::min(inA.end(), inB.end());
    if (from < to)
      copy(inA.local + from - inA.at, inB.local + from - inB.at, to - from);
    i += inA.end() == to;
    j += inB.end() == to;
  }
}

} // namespace dtc::rt
