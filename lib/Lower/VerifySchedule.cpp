#include "Homes.h"

#include "dtc/Lower/Passes.h"
#include "dtc/Target/LibraryRecords.h"

#include <map>

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "dtc/Lower/Passes.h.inc"

namespace {

bool mayRemain(Operation *op) {
  return isa<exec::LaunchOp, exec::MatmulOp, exec::CopyOp, exec::ZeroOp, graph::ReshapeOp,
             dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
             dist::PermuteOp, dist::SliceOp, dist::AxisIndexOp, func::ReturnOp>(op) ||
         target::isConv(op);
}

/// Follows what each byte of the arena holds through a function: the last
/// thing written there. An independent check of the memory plan.
class ArenaContents {
public:
  using Content = uint64_t; ///< 0: nothing known

  /// True if all of [begin, begin + bytes) holds `content`.
  bool holds(uint64_t begin, uint64_t bytes, Content content) const {
    if (bytes == 0)
      return true;
    auto it = segments.upper_bound(begin);
    if (it == segments.begin())
      return false;
    for (--it; it != segments.end() && it->first < begin + bytes; ++it)
      if (it->second != content)
        return false;
    return true;
  }

  void write(uint64_t begin, uint64_t bytes, Content content) {
    if (bytes == 0)
      return;
    uint64_t end = begin + bytes;
    auto next = segments.upper_bound(begin);
    Content last = next == segments.begin() ? Content{0} : std::prev(next)->second;
    for (; next != segments.end() && next->first < end; next = segments.erase(next))
      last = next->second;
    // What was there goes on behind the end.
    if (next == segments.end() || next->first != end)
      next = segments.emplace_hint(next, end, last);
    segments.insert_or_assign(next, begin, content);
  }

private:
  std::map<uint64_t, Content> segments; ///< from each start to the next
};

class FunctionVerifier {
public:
  FunctionVerifier(func::FuncOp function, const HomeTable &homes, uint64_t arenaBytes)
      : function(function), homes(homes), arenaBytes(arenaBytes) {}

  LogicalResult verify() {
    for (BlockArgument argument : function.getArguments())
      if (failed(enterArgument(argument)))
        return failure();
    for (Operation &op : function.getBody().front())
      if (failed(verifyOp(&op)))
        return failure();
    return verifyResults();
  }

private:
  LogicalResult enterArgument(BlockArgument argument) {
    auto offset = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                         exec::ExecDialect::kOffsets);
    if (!offset)
      return function.emitError("argument has no place in memory: ") << argument.getArgNumber();
    return write(function, argument, offset.getInt());
  }

  LogicalResult write(Operation *at, Value value, int64_t offset) {
    uint64_t bytes = bytesOf(value.getType());
    if (offset < 0 || offset + bytes > arenaBytes)
      return at->emitError("place lies outside the arena: ") << offset;
    values[value] = {static_cast<uint64_t>(offset), ++numContents};
    contents.write(offset, bytes, numContents);
    return success();
  }

  LogicalResult read(Operation *op, Value value) {
    auto it = values.find(value);
    if (it == values.end())
      return op->emitError("reads a tensor without a place in memory");
    const auto &[offset, content] = it->second;
    if (!contents.holds(offset, bytesOf(value.getType()), content))
      return op->emitError("reads a tensor that was written over, at offset: ") << offset;
    return success();
  }

  LogicalResult verifyOp(Operation *op) {
    if (!mayRemain(op))
      return op->emitError("can't be executed: ") << op->getName();
    if (isa<func::ReturnOp>(op))
      return success();
    auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(exec::ExecDialect::kOffsets);
    if (!offsets || offsets.size() != static_cast<int64_t>(op->getNumResults()))
      return op->emitError("has no place in memory for each result");
    if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
      values[reshape.getResult()] = values[reshape.getInput()];
      return static_cast<uint64_t>(offsets[0]) == values[reshape.getInput()].first
                 ? success()
                 : op->emitError("is not where its operand is: ") << offsets[0];
    }
    // Scratch is written first: it may not lie over an operand.
    if (failed(verifyScratch(op)))
      return failure();
    for (Value operand : op->getOperands())
      if (failed(read(op, operand)))
        return failure();
    return writeResults(op, offsets);
  }

  LogicalResult verifyScratch(Operation *op) {
    auto scratch = op->getAttrOfType<DenseI64ArrayAttr>(exec::ExecDialect::kScratch);
    if (!scratch)
      return success();
    if (scratch.size() != 2 || scratch[0] < 0 ||
        static_cast<uint64_t>(scratch[0] + scratch[1]) > arenaBytes)
      return op->emitError("has scratch memory outside the arena");
    contents.write(scratch[0], scratch[1], ++numContents);
    return success();
  }

  /// After the results are written, every operand is still there but for those that a result
  /// may overwrite, of which that result has the place.
  LogicalResult writeResults(Operation *op, DenseI64ArrayAttr offsets) {
    SmallVector<Value> present(op->getOperands());
    for (OpResult result : op->getResults()) {
      int64_t offset = offsets[result.getResultNumber()];
      int64_t operand = overwritable(result);
      if (operand >= 0 && isSamePlace(present[operand], result, offset))
        present[operand] = result;
      if (failed(write(op, result, offset)))
        return failure();
    }
    for (auto [j, value] : llvm::enumerate(present))
      if (!isPresent(value))
        return op->emitError("writes over an operand that it reads: ") << j;
    for (OpResult result : op->getResults())
      if (!isPresent(result))
        return op->emitError("results overlap each other or scratch memory");
    return success();
  }

  bool isPresent(Value value) {
    const auto &[offset, content] = values[value];
    return contents.holds(offset, bytesOf(value.getType()), content);
  }

  /// In place is in the same place.
  bool isSamePlace(Value operand, OpResult result, int64_t offset) {
    return values[operand].first == static_cast<uint64_t>(offset) &&
           bytesOf(operand.getType()) == bytesOf(result.getType());
  }

  /// The operand that a result may overwrite, or -1.
  static int64_t overwritable(OpResult result) {
    unsigned i = result.getResultNumber();
    if (auto launch = dyn_cast<exec::LaunchOp>(result.getOwner()))
      return launch.getInPlace()[i];
    return isa<dist::AllReduceOp>(result.getOwner()) ? static_cast<int64_t>(i) : -1;
  }

  /// At the end every result is at home, and so are arguments that nothing
  /// replaces and that are asked for again.
  LogicalResult verifyResults() {
    Operation *terminator = function.getBody().front().getTerminator();
    llvm::BitVector replaced(homes.getHomes().size());
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      size_t home = homes.find(graph::getResultRole(function, i));
      replaced.set(home);
      if (failed(read(terminator, value)))
        return failure();
      if (values[value].first != homes.getHomes()[home].offset)
        return terminator->emitError("result is not in the place of its role: ") << i;
    }
    for (BlockArgument argument : function.getArguments()) {
      size_t home = homes.find(graph::getArgRole(function, argument.getArgNumber()));
      bool stays = !replaced.test(home) && !homes.isSpentAfter(function, home);
      if (stays && failed(read(terminator, argument)))
        return failure();
    }
    return success();
  }

  func::FuncOp function;
  const HomeTable &homes;
  uint64_t arenaBytes;
  ArenaContents contents;
  uint64_t numContents = 0;
  llvm::DenseMap<Value, std::pair<uint64_t, uint64_t>> values; ///< offset and content
};

struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  LogicalResult run() {
    ModuleOp module = getOperation();
    FailureOr<HomeTable> homes = HomeTable::build(module);
    if (failed(homes))
      return failure();
    auto arena = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kArenaBytes);
    if (!arena || !module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kThreads))
      return module.emitError("memory is not planned");
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(FunctionVerifier(function, *homes, arena.getInt()).verify()))
        return failure();
    for (exec::CallOp call : (*module.getOps<exec::ScheduleOp>().begin()).getOps<exec::CallOp>())
      if (!module.lookupSymbol<func::FuncOp>(call.getCallee()))
        return call.emitError("calls an unknown function: ") << call.getCallee();
    return success();
  }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace dtc::lower
