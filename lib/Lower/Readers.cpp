#include "Readers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dtc::lower {

Operation *firstReader(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    Operation *reader = exec::isView(user) ? firstReader(user->getResult(0)) : user;
    if (reader && !isa<func::ReturnOp>(reader) && (!first || reader->isBeforeInBlock(first)))
      first = reader;
  }
  return first;
}

void moveViewsBefore(Value value, Operation *reader) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
    if (exec::isView(user) && user->isBeforeInBlock(reader)) {
      user->moveBefore(reader);
      moveViewsBefore(user->getResult(0), reader);
    }
}

} // namespace dtc::lower
