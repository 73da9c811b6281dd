// Who reads a value through views, and how views come behind what they wait for.
//
//   %a = dist.all_reduce %x       started here
//   %b = dtc.reshape %a           a view, which is no reader
//   ...
//   %c = exec.launch @k(%b)       the first reader of %a: a wait stands before it, then the view
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::lower {

/// The first op that reads a value or what views show of it; null: none but the return does.
mlir::Operation *firstReader(mlir::Value value);

/// Views of a value that stand before one of its readers come right before that. So do views of
/// these.
void moveViewsBefore(mlir::Value value, mlir::Operation *reader);

} // namespace dtc::lower
