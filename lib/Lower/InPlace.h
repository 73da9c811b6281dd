// Which results may lie where an operand lay.
//
//     %s = dist.reduce_scatter sum %g      the rank's part stays at the beginning of %g's place
//     %s = exec.matmul %a, %b with %c      %s takes the place of %c, to which the product is added
//     %p = exec.launch @pad(%g)            zeros go behind %g, where its place has the room
//
// Buffers are assigned by this, and the schedule is verified by it.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::lower {

/// Whether the op sums each operand over ranks, where it lies.
bool sumsInPlace(mlir::Operation *op);
/// The operand whose place a result may take, or -1.
int64_t overwritable(mlir::OpResult result);
/// Whether the result fits there by its size. A part may be smaller, and a launch may add zeros.
bool fitsInPlace(mlir::OpResult result);
/// Whether the op only puts zeros behind its one operand, in its place.
bool putsZerosBehind(mlir::Operation *op);

} // namespace dtc::lower
