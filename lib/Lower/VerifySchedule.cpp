#include "ArenaContents.h"
#include "Flights.h"
#include "Homes.h"
#include "InPlace.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "dtc/Lower/Passes.h.inc"

namespace {

bool mayRemain(Operation *op) {
  return isa<exec::LaunchOp, exec::CopyOp, exec::ZeroOp, exec::SendOp, exec::ReceiveOp,
             dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
             dist::PermuteOp, dist::SliceOp, dist::AxisIndexOp, dist::StageSumOp, func::ReturnOp>(
             op) ||
         exec::isView(op) || exec::isPart(op) || target::isLibraryCall(op);
}

/// A stretch of an arena.
struct Range {
  bool host = false;
  uint64_t begin = 0, bytes = 0;
  bool meets(const Range &other) const {
    return host == other.host && begin < other.begin + other.bytes &&
           other.begin < begin + bytes;
  }
};

/// Follows a function through memory. What was started on another queue reads and writes from its
/// start until it is done. Nothing else may write what it reads, nor touch what it writes.
class FunctionVerifier {
public:
  FunctionVerifier(func::FuncOp function, const HomeTable &homes, uint64_t arenaBytes)
      : function(function), homes(homes), arenaBytes(arenaBytes) {
    for (Operation &op : function.getBody().front())
      times[&op] = static_cast<int64_t>(times.size());
    flights.emplace(function, times);
  }

  LogicalResult verify() {
    for (BlockArgument argument : function.getArguments())
      if (failed(enterArgument(argument)))
        return failure();
    for (Operation &op : function.getBody().front()) {
      landFlights(times[&op]);
      if (failed(verifyOp(&op)))
        return failure();
    }
    return verifyResults();
  }

private:
  struct Place {
    Range range;
    ArenaContents::Content content = 0;
  };
  struct Flight {
    Operation *op;
    SmallVector<Range> reads, writes;
  };

  LogicalResult enterArgument(BlockArgument argument) {
    unsigned number = argument.getArgNumber();
    auto offset =
        function.getArgAttrOfType<IntegerAttr>(number, exec::ExecDialect::kOffsets);
    if (!offset)
      return function.emitError("argument has no place in memory: ") << number;
    graph::RoleAttr role = graph::getArgRole(function, number);
    if (role.getKind() == graph::RoleKind::Inbox)
      for (Operation *user : argument.getUsers())
        if (!isa<exec::WaitOp>(user))
          return user->emitOpError("uses a value in flight without exec.wait, argument: ")
                 << number;
    const Home &home = homes.getHomes()[homes.find(role)];
    return write(function, argument, offset.getInt(), home.isOnHost());
  }

  uint64_t bytesIn(bool host) const { return host ? homes.hostSize() : arenaBytes; }
  ArenaContents &contentsOf(const Range &range) { return contents[range.host]; }

  LogicalResult write(Operation *at, Value value, int64_t offset, bool host) {
    uint64_t bytes = bytesOf(value.getType());
    if (offset < 0 || offset + bytes > bytesIn(host))
      return at->emitError("place lies outside the arena: ") << offset;
    Range range{host, static_cast<uint64_t>(offset), bytes};
    if (failed(checkFlights(at, range, /*writes=*/true)))
      return failure();
    values[value] = {range, ++numContents};
    contentsOf(range).write(range.begin, bytes, numContents);
    return success();
  }

  LogicalResult read(Operation *op, Value value) {
    auto it = values.find(value);
    if (it == values.end())
      return op->emitError("reads a tensor without a place in memory");
    if (!isPresent(value))
      return op->emitError("reads a tensor that was written over, at offset: ")
             << it->second.range.begin;
    if (it->second.range.host && !isa<exec::CopyOp, func::ReturnOp>(op))
      return op->emitError("reads host memory, which only exec.copy may");
    return checkFlights(op, it->second.range, /*writes=*/false);
  }

  /// Ops that follow one another don't disturb each other.
  LogicalResult checkFlights(Operation *op, const Range &range, bool writes) {
    for (const Flight &flight : inFlight) {
      auto meets = [&](const Range &other) { return range.meets(other); };
      bool arrives = isa<func::ReturnOp>(op) && isa<exec::ReceiveOp>(flight.op);
      if (flight.op == op || arrives || follows(op, flight.op))
        continue;
      if (llvm::any_of(flight.writes, meets) || (writes && llvm::any_of(flight.reads, meets))) {
        InFlightDiagnostic error = op->emitError("touches what an op in flight uses, at offset: ");
        error << range.begin;
        error.attachNote(flight.op->getLoc()) << "the op in flight is here";
        return error;
      }
    }
    return success();
  }

  void landFlights(int64_t time) {
    llvm::erase_if(inFlight, [&](const Flight &flight) {
      bool message = isa<exec::SendOp, exec::ReceiveOp>(flight.op);
      bool atEnd = flights->doneAt(flight.op) == times[function.getBody().front().getTerminator()];
      return flights->doneAt(flight.op) <= time && !(message && atEnd);
    });
  }

  void takeOff(Operation *op) {
    if (!exec::isStarted(op))
      return;
    Flight &flight = inFlight.emplace_back(Flight{op, {}, {}});
    for (Value operand : op->getOperands())
      flight.reads.push_back(values[operand].range);
    for (Value result : op->getResults())
      flight.writes.push_back(values[result].range);
  }

  LogicalResult verifyOp(Operation *op) {
    if (!mayRemain(op))
      return op->emitError("can't be executed: ") << op->getName();
    if (isa<func::ReturnOp>(op))
      return success();
    auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(exec::ExecDialect::kOffsets);
    if (!offsets || offsets.size() != static_cast<int64_t>(op->getNumResults()))
      return op->emitError("has no place in memory for each result");
    if (exec::isView(op))
      return verifySamePlace(op, offsets[0]);
    if (graph::ConcatOp join = exec::joinOf(op))
      return verifyJoin(join, offsets[0]);
    // Scratch is written first: it may not lie over an operand.
    if (failed(verifyScratch(op)))
      return failure();
    for (Value operand : op->getOperands())
      if (failed(read(op, operand)))
        return failure();
    if (failed(writeResults(op, offsets)))
      return failure();
    takeOff(op);
    return success();
  }

  LogicalResult verifySamePlace(Operation *op, int64_t offset) {
    Place place = values[op->getOperand(0)];
    if (graph::SliceOp part = exec::partOf(op))
      place.range = {place.range.host,
                     place.range.begin + bytesInto(part) - bytesInto(part.getInput()),
                     bytesOf(part.getType())};
    values[op->getResult(0)] = place;
    return static_cast<uint64_t>(offset) == place.range.begin
               ? success()
               : op->emitError("is not where its operand is: ") << offset;
  }

  /// Parts lie one behind another, and are one tensor from there on.
  LogicalResult verifyJoin(graph::ConcatOp join, int64_t offset) {
    Range whole{values[join.getInputs()[0]].range.host, static_cast<uint64_t>(offset), 0};
    for (auto [i, input] : llvm::enumerate(join.getInputs())) {
      const Range &range = values[input].range;
      if (range.host != whole.host || range.begin != whole.begin + whole.bytes)
        return join.emitOpError("has a part that doesn't lie behind the one before it: ") << i;
      if (!isPresent(input))
        return join.emitOpError("joins a part that was written over: ") << i;
      whole.bytes += range.bytes;
    }
    values[join.getResult()] = {whole, ++numContents};
    contentsOf(whole).write(whole.begin, whole.bytes, numContents);
    return success();
  }

  LogicalResult verifyScratch(Operation *op) {
    auto scratch = op->getAttrOfType<DenseI64ArrayAttr>(exec::ExecDialect::kScratch);
    if (!scratch)
      return success();
    if (scratch.size() != 2 || scratch[0] < 0 ||
        static_cast<uint64_t>(scratch[0] + scratch[1]) > arenaBytes)
      return op->emitError("has scratch memory outside the arena");
    Range range{false, static_cast<uint64_t>(scratch[0]), static_cast<uint64_t>(scratch[1])};
    contentsOf(range).write(range.begin, range.bytes, ++numContents);
    return checkFlights(op, range, /*writes=*/true);
  }

  /// After the results are written, every operand is still there but for those that a result
  /// may overwrite, of which that result has the place.
  LogicalResult writeResults(Operation *op, DenseI64ArrayAttr offsets) {
    auto copy = dyn_cast<exec::CopyOp>(op);
    bool host = copy && copy.getToHost();
    SmallVector<Value> present(op->getOperands());
    for (OpResult result : op->getResults()) {
      int64_t offset = offsets[result.getResultNumber()];
      int64_t operand = overwritable(result);
      if (operand >= 0 && fitsInPlace(result) && isSamePlace(present[operand], offset))
        present[operand] = result;
      if (failed(write(op, result, offset, host)))
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
    const Place &place = values[value];
    return contentsOf(place.range).holds(place.range.begin, bytesOf(value.getType()),
                                         place.content);
  }

  bool isSamePlace(Value operand, int64_t offset) {
    const Range &range = values[operand].range;
    return !range.host && range.begin == static_cast<uint64_t>(offset);
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
      const Range &range = values[value].range;
      if (range.begin != homes.getHomes()[home].offset ||
          range.host != homes.getHomes()[home].isOnHost())
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
  ArenaContents contents[2]; ///< of the device and of the host
  ArenaContents::Content numContents = 0;
  llvm::DenseMap<Value, Place> values;
  llvm::DenseMap<Operation *, int64_t> times;
  std::optional<Flights> flights;
  SmallVector<Flight> inFlight;
};

/// What stands for a function in the last microbatch isn't called for another.
LogicalResult verifyLastCalls(ModuleOp module) {
  SymbolTable symbols(module);
  for (auto schedule : module.getOps<exec::ScheduleOp>())
    for (auto call : schedule.getOps<exec::CallOp>()) {
      auto function = symbols.lookup<func::FuncOp>(call.getCallee());
      bool isForLast = function && !exec::lastOf(function).empty();
      if (isForLast && call.getMicrobatch() + 1 != schedule.getMicrobatches())
        return call.emitOpError("calls for another microbatch what is for the last one: ")
               << call.getCallee();
    }
  return success();
}

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
    return verifyLastCalls(module);
  }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace dtc::lower
