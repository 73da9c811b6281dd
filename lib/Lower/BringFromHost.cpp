// What lies on the host passes through the device, a few tensors at a time.
#include "Readers.h"

#include "dtc/Lower/Passes.h"

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
  SmallVector<BlockArgument> reads; ///< that no station before it reads
  SmallVector<unsigned> results;    ///< of the function
};

class FunctionRewriter {
public:
  explicit FunctionRewriter(func::FuncOp function)
      : function(function), block(function.getBody().front()), builder(function.getContext()) {}

  void run() {
    findStations();
    for (auto [i, station] : llvm::enumerate(stations)) {
      builder.setInsertionPoint(stations[i == 0 ? 0 : i - 1].op);
      for (BlockArgument argument : station.reads)
        bring(argument, station.op);
    }
    for (const Station &station : stations)
      for (unsigned result : station.results)
        takeBack(result);
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
        if (Operation *reader = firstReader(argument))
          at(reader).reads.push_back(argument);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (isOnHost(function.getResultAttrDict(i)))
        if (Operation *maker = exec::bufferRoot(value).getDefiningOp())
          at(maker).results.push_back(i);
    for (Operation &op : block)
      if (auto station = known.find(&op); station != known.end())
        stations.push_back(std::move(station->second));
  }

  Value startCopy(Value value, bool toHost) {
    auto copy = exec::CopyOp::create(builder, value.getLoc(), value, toHost);
    copy->setAttr(exec::ExecDialect::kQueue,
                  exec::QueueKindAttr::get(copy.getContext(), exec::QueueKind::Copy));
    return copy;
  }

  /// Starts here, and is there when `reader` begins.
  void bring(BlockArgument argument, Operation *reader) {
    Value copy = startCopy(argument, /*toHost=*/false);
    OpBuilder atReader(reader);
    Value there = exec::WaitOp::create(atReader, argument.getLoc(), argument.getType(), copy);
    argument.replaceUsesWithIf(there, [&](OpOperand &use) {
      return use.getOwner() != copy.getDefiningOp() && !isReturned(use);
    });
    moveViewsBefore(there, reader);
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
