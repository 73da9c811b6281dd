// When what a function starts on other queues is done.
//
//   0  %s = dist.all_reduce %a {collective}     done at 3: %t waits for it
//   1  %r = dist.all_reduce %b {collective}     done at 5: %u waits for it
//   2  ...
//   3  %t = exec.wait %s
//   4  exec.send %o {send}                      never done here: a message
//   5  %u = exec.wait %r                        (a wait for a later op of the queue would do)
//   6  return
//
// A queue carries out its ops in order, so that who waits for one has waited for those before
// it. So it has for what that one reads of other queues. What nothing waits for is done at the end
// of the function, but for messages, which may stay in flight.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "llvm/ADT/DenseMap.h"

namespace dtc::lower {

class Flights {
public:
  /// `times`: the positions of the function's ops.
  Flights(mlir::func::FuncOp function,
          const llvm::DenseMap<mlir::Operation *, int64_t> &times);

  bool empty() const { return done.empty(); }
  /// The position from which on a started op is done.
  int64_t doneAt(mlir::Operation *started) const { return done.at(started); }

private:
  llvm::DenseMap<mlir::Operation *, int64_t> done;
};

/// Whether an op begins only once one that was started before it is done: it comes behind it on its
/// queue, or reads what that one made, or what one behind it made.
bool follows(mlir::Operation *op, mlir::Operation *started);

} // namespace dtc::lower
