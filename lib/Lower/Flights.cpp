#include "Flights.h"

#include "dtc/Dialect/Exec/Queue.h"

using namespace mlir;

namespace dtc::lower {

Flights::Flights(func::FuncOp function, const DenseMap<Operation *, int64_t> &times) {
  Block &block = function.getBody().front();
  int64_t end = times.at(block.getTerminator());
  // From the last op of each queue to the first: a wait counts for all before it.
  std::vector<std::pair<exec::Queue, int64_t>> soonest; // few
  DenseMap<Operation *, int64_t> read; // when what reads it on another queue is done
  for (Operation &op : llvm::reverse(block)) {
    if (!exec::isStarted(&op))
      continue;
    const exec::Queue queue = exec::Queue::of(&op);
    auto known = llvm::find_if(soonest, [&](const auto &each) { return each.first == queue; });
    if (known == soonest.end())
      known = soonest.insert(known, {queue, end});
    int64_t &time = known->second;
    if (auto at = read.find(&op); at != read.end())
      time = std::min(time, at->second);
    for (Value result : op.getResults())
      for (Operation *user : result.getUsers())
        if (isa<exec::WaitOp>(user))
          time = std::min(time, times.at(user));
    done[&op] = time;
    for (Value operand : op.getOperands())
      if (Operation *before = exec::startedBy(operand)) {
        auto at = read.try_emplace(before, time).first;
        at->second = std::min(at->second, time);
      }
  }
}

bool follows(Operation *op, Operation *started) {
  if (!exec::isStarted(op) || !started->isBeforeInBlock(op))
    return false;
  if (exec::Queue::of(op) == exec::Queue::of(started))
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *before = exec::startedBy(operand);
    return before && (before == started || follows(before, started));
  });
}

} // namespace dtc::lower
