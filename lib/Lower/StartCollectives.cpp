#include "Readers.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Dialect/Exec/Queue.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_STARTCOLLECTIVES
#include "dtc/Lower/Passes.h.inc"

namespace {

bool mayStart(Operation *op) {
  return isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
             dist::PermuteOp>(op);
}

bool computes(Operation *op) { return isa<exec::LaunchOp>(op) || target::isLibraryCall(op); }

/// Starts what one function exchanges.
class FunctionStarter {
public:
  explicit FunctionStarter(func::FuncOp function)
      : function(function), block(function.getBody().front()) {}

  void run() {
    SmallVector<Operation *> collectives;
    for (Operation &op : block)
      if (mayStart(&op))
        collectives.push_back(&op);
    if (!llvm::any_of(collectives, [&](Operation *op) { return hasCompany(op); }))
      return;
    for (Operation *op : llvm::reverse(collectives))
      start(op);
    for (Operation *op : collectives)
      if (isa<dist::ReduceScatterOp>(op) && !staysInPlace(op))
        freeOperands(op);
  }

private:
  /// The first op that reads a result, or else the return. A collective that reads it as it is
  /// comes behind it on the queue, so that its own reader counts where it is followed.
  Operation *firstReaderOf(Operation *op, bool followsQueue) const {
    Operation *first = block.getTerminator();
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers()) {
        Operation *reader = exec::isView(user) ? firstReader(user->getResult(0))
                            : !mayStart(user)  ? user
                            : followsQueue     ? firstReaderOf(user, true)
                                               : nullptr;
        if (reader && reader->isBeforeInBlock(first))
          first = reader;
      }
    return first;
  }

  /// Whether anything is computed between a collective and what reads its results.
  bool hasCompany(Operation *op) const {
    Operation *reader = firstReaderOf(op, true);
    for (Operation *next = op->getNextNode(); next != reader; next = next->getNextNode())
      if (computes(next))
        return true;
    return false;
  }

  void start(Operation *op) {
    Operation *reader = firstReaderOf(op, false);
    OpBuilder builder(reader);
    op->setAttr(exec::ExecDialect::kQueue,
                exec::QueueKindAttr::get(op->getContext(), exec::QueueKind::Collective));
    for (Value result : op->getResults()) {
      if (llvm::all_of(result.getUsers(), mayStart))
        continue;
      auto wait = exec::WaitOp::create(builder, op->getLoc(), result.getType(), result);
      result.replaceUsesWithIf(wait, [&](OpOperand &use) {
        return use.getOwner() != wait && !mayStart(use.getOwner());
      });
      moveViewsBefore(wait, reader);
    }
  }

  /// Whether parts lie where the whole operands lay, so that nothing is freed.
  bool staysInPlace(Operation *scatter) {
    return llvm::any_of(block.getTerminator()->getOpOperands(), [&](OpOperand &returned) {
      return exec::bufferRoot(returned.get()).getDefiningOp() == scatter &&
             function.getResultAttr(returned.getOperandNumber(), exec::kRoom);
    });
  }

  /// What is scattered is large, and takes memory until somebody has waited. So that is done where
  /// a collective of another queue is waited for that was started later, if not before.
  static void freeOperands(Operation *scatter) {
    SmallVector<exec::WaitOp> waits;
    for (Operation *user : scatter->getUsers())
      if (auto wait = dyn_cast<exec::WaitOp>(user))
        waits.push_back(wait);
    if (waits.empty())
      return;
    for (Operation *next = scatter->getNextNode(); !llvm::is_contained(waits, next);
         next = next->getNextNode()) {
      auto other = dyn_cast<exec::WaitOp>(next);
      Operation *started = other ? exec::startedBy(other.getInput()) : nullptr;
      if (!started || !scatter->isBeforeInBlock(started) ||
          exec::Queue::of(started) == exec::Queue::of(scatter))
        continue;
      for (exec::WaitOp wait : waits)
        wait->moveAfter(other);
      return;
    }
  }

  func::FuncOp function;
  Block &block;
};

struct StartCollectives : impl::StartCollectivesBase<StartCollectives> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        FunctionStarter(function).run();
  }
};

} // namespace
} // namespace dtc::lower
