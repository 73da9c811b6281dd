// What lies on the host passes through the device, a few tensors at a time.
#include "Readers.h"

#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Lower/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_BRINGFROMHOST
#include "dtc/Lower/Passes.h.inc"

namespace {

bool isOnHost(DictionaryAttr attributes) {
  return attributes && attributes.contains(dist::DistDialect::kOnHost);
}

/// An op that reads what lies on the host, or makes what belongs there.
struct Station {
  Operation *op;
  SmallVector<Value> reads;      ///< arguments and parts of them that no station before it reads
  SmallVector<unsigned> results; ///< of the function
};

class FunctionRewriter {
public:
  explicit FunctionRewriter(func::FuncOp function)
      : function(function), block(function.getBody().front()), builder(function.getContext()) {}

  void run() {
    findStations();
    for (auto [i, station] : llvm::enumerate(stations))
      for (Value value : station.reads) {
        builder.setInsertionPoint(stations[i == 0 ? 0 : i - 1].op);
        bring(value, station.op);
      }
    for (const Station &station : stations)
      for (unsigned result : station.results)
        takeBack(result);
    for (auto [join, returned] : toHost)
      takeBackParts(join, returned);
    copyParts();
    markSpaces();
  }

private:
  void findStations() {
    DenseMap<Operation *, Station> known;
    auto at = [&](Operation *op) -> Station & {
      return known.try_emplace(op, Station{op, {}, {}}).first->second;
    };
    for (BlockArgument argument : block.getArguments())
      if (isOnHost(function.getArgAttrDict(argument.getArgNumber())))
        for (Value value : whatIsBrought(argument))
          if (Operation *reader = firstReader(value))
            at(reader).reads.push_back(value);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
      if (!isOnHost(function.getResultAttrDict(i)))
        continue;
      Operation *maker = exec::bufferRoot(value).getDefiningOp();
      if (graph::ConcatOp join = exec::joinOf(maker))
        toHost.insert({join, value});
      else if (maker)
        at(maker).results.push_back(i);
    }
    for (Operation &op : block)
      if (auto station = known.find(&op); station != known.end())
        stations.push_back(std::move(station->second));
  }

  /// A value on the host, or the parts of it that are updated one by one.
  SmallVector<Value> whatIsBrought(Value value) {
    SmallVector<Value> parts;
    collectParts(value, parts);
    fromHost.insert(parts.begin(), parts.end());
    return parts.empty() ? SmallVector<Value>{value} : parts;
  }

  static void collectParts(Value value, SmallVectorImpl<Value> &parts) {
    for (Operation *user : value.getUsers())
      if (exec::partOf(user))
        parts.push_back(user->getResult(0));
      else if (exec::isView(user))
        collectParts(user->getResult(0), parts);
  }

  Value startCopy(Value value, bool toHost) {
    auto copy = exec::CopyOp::create(builder, value.getLoc(), value, toHost);
    copy->setAttr(exec::ExecDialect::kQueue,
                  exec::QueueKindAttr::get(copy.getContext(), exec::QueueKind::Copy));
    return copy;
  }

  /// Starts here, and is there when `reader` begins.
  void bring(Value value, Operation *reader) {
    moveToFront(value);
    Value copy = startCopy(value, /*toHost=*/false);
    OpBuilder atReader(reader);
    Value there = exec::WaitOp::create(atReader, value.getLoc(), value.getType(), copy);
    value.replaceUsesWithIf(there, [&](OpOperand &use) {
      return use.getOwner() != copy.getDefiningOp() && !isReturned(use);
    });
    moveViewsBefore(there, reader);
  }

  /// A part of an argument, with the views that it is cut from.
  void moveToFront(Value value) {
    for (Operation *view = value.getDefiningOp(); view; view = view->getOperand(0).getDefiningOp())
      view->moveBefore(&block, block.begin());
  }

  /// What is returned as it came stays where it is.
  static bool isReturned(OpOperand &use) {
    Operation *user = use.getOwner();
    return isa<func::ReturnOp>(user) ||
           (exec::isView(user) && llvm::all_of(user->getUses(), isReturned));
  }

  void takeBack(unsigned result) {
    Operation *terminator = block.getTerminator();
    Value value = terminator->getOperand(result);
    builder.setInsertionPointAfterValue(value);
    Value copy = startCopy(value, /*toHost=*/true);
    builder.setInsertionPoint(terminator);
    terminator->setOperand(result,
                           exec::WaitOp::create(builder, value.getLoc(), value.getType(), copy));
  }

  /// Each as soon as it is made. They are joined when all have left.
  void takeBackParts(graph::ConcatOp join, Value returned) {
    Operation *terminator = block.getTerminator();
    SmallVector<Operation *> views;
    for (Operation *op = returned.getDefiningOp(); op != join;
         op = op->getOperand(0).getDefiningOp())
      views.push_back(op);
    join->moveBefore(terminator);
    for (Operation *view : llvm::reverse(views))
      view->moveBefore(terminator);
    for (OpOperand &part : join->getOpOperands()) {
      Value value = part.get();
      builder.setInsertionPointAfterValue(value);
      Value copy = startCopy(value, /*toHost=*/true);
      builder.setInsertionPoint(join);
      part.set(exec::WaitOp::create(builder, value.getLoc(), value.getType(), copy));
    }
  }

  /// On the device copies alone read and write parts, too. What reads one has it beside the rest
  /// of the tensor, and what makes one need not write to the place of the whole.
  void copyParts() {
    SmallVector<Operation *> parts;
    for (Operation &op : block)
      if (exec::isPart(&op) && !fromHost.contains(op.getResult(0)) &&
          !toHost.contains(exec::joinOf(&op)))
        parts.push_back(&op);
    for (Operation *op : parts)
      if (graph::SliceOp part = exec::partOf(op)) {
        Operation *reader = firstReader(part);
        builder.setInsertionPoint(reader);
        part->moveBefore(reader);
        Value copy = exec::CopyOp::create(builder, part.getLoc(), part, /*toHost=*/false);
        part.getResult().replaceAllUsesExcept(copy, copy.getDefiningOp());
      } else {
        for (OpOperand &joined : op->getOpOperands()) {
          Value value = joined.get();
          builder.setInsertionPointAfterValue(value);
          joined.set(exec::CopyOp::create(builder, value.getLoc(), value, /*toHost=*/false));
        }
      }
  }

  /// What the plan says becomes the space of the memory.
  void markSpaces() {
    auto host = exec::SpaceAttr::get(function.getContext(), exec::Space::Host);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (isOnHost(function.getArgAttrDict(i))) {
        function.removeArgAttr(i, dist::DistDialect::kOnHost);
        function.setArgAttr(i, exec::ExecDialect::kSpace, host);
      }
    auto *context = function.getContext();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (isOnHost(function.getResultAttrDict(i))) {
        function.removeResultAttr(i, StringAttr::get(context, dist::DistDialect::kOnHost));
        function.setResultAttr(i, exec::ExecDialect::kSpace, host);
      }
  }

  func::FuncOp function;
  Block &block;
  OpBuilder builder;
  SmallVector<Station> stations; ///< in the order of the function
  DenseSet<Value> fromHost;      ///< parts that are brought
  /// What is joined there, and what the function returns of it.
  llvm::MapVector<graph::ConcatOp, Value> toHost;
};

struct BringFromHost : impl::BringFromHostBase<BringFromHost> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        FunctionRewriter(function).run();
  }
};

} // namespace
} // namespace dtc::lower
