// The sizes of a mixture's rows and of their slots.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::graph {

/// Of rows [sample, row, ...] and slots [sample, (section,) part, slot, ...].
struct SlotShape {
  SlotShape(mlir::Value inRows, mlir::Value inSlots) {
    llvm::ArrayRef<int64_t> rowSizes = shapeOf(inRows), slotSizes = shapeOf(inSlots);
    hasSections = slotSizes.size() == rowSizes.size() + 2;
    samples = rowSizes[0];
    sections = hasSections ? slotSizes[1] : 1;
    rows = sections > 0 ? rowSizes[1] / sections : 0;
    parts = slotSizes[partDim()];
    capacity = slotSizes[partDim() + 1];
  }
  int64_t partDim() const { return hasSections ? 2 : 1; }
  int64_t slots() const { return parts * capacity; } ///< of a section

  bool hasSections;
  int64_t samples, sections;
  int64_t rows; ///< of a section
  int64_t parts, capacity;
};

/// Of a section's rows, how many are compared with each other to count those before a row.
inline int64_t rowsTogether(int64_t rows) {
  constexpr int64_t most = 256, least = 16;
  for (int64_t together = most; together >= least; --together)
    if (rows % together == 0)
      return together;
  return rows;
}

} // namespace dtc::graph
