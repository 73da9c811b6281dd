#include "Flights.h"

using namespace mlir;

namespace dtc::lower {

Flights::Flights(func::FuncOp function, const DenseMap<Operation *, int64_t> &times) {
  Block &block = function.getBody().front();
  int64_t end = times.at(block.getTerminator());
  // From the last op of each queue to the first: a wait counts for all before it.
  DenseMap<unsigned, int64_t> soonest;
  for (Operation &op : llvm::reverse(block)) {
    if (!exec::isStarted(&op))
      continue;
    auto queue = static_cast<unsigned>(exec::queueOf(&op));
    int64_t &time = soonest.try_emplace(queue, end).first->second;
    for (Value result : op.getResults())
      for (Operation *user : result.getUsers())
        if (isa<exec::WaitOp>(user))
          time = std::min(time, times.at(user));
    done[&op] = time;
  }
}

} // namespace dtc::lower
