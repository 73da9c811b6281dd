#include "BufferAssignment.h"
#include "InPlace.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;

namespace dtc::lower {
namespace {

/// Whether a launch writes over what a barrier has held back, as where terms are added in turn
/// (Kernels/SumInTurn.h).
bool addsInTurn(OpResult result) {
  const int64_t operand = overwritable(result);
  return isa<exec::LaunchOp>(result.getOwner()) && operand >= 0 &&
         result.getOwner()->getOperand(operand).getDefiningOp<graph::BarrierOp>();
}

/// What a sum over ranks alone reads, and so writes over, a launch that puts zeros behind it, or
/// one that adds a term to others; null: the value is of another kind.
Value madeInPlace(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result ||
      !(sumsInPlace(result.getOwner()) || putsZerosBehind(result.getOwner()) || addsInTurn(result)))
    return nullptr;
  Value operand = result.getOwner()->getOperand(overwritable(result));
  bool isAlone = operand.hasOneUse();
  for (; exec::bufferRoot(operand) != operand; isAlone &= operand.hasOneUse())
    operand = operand.getDefiningOp()->getOperand(0);
  return isAlone ? operand : nullptr;
}

/// Elements of a tensor, from the first to behind the last.
struct Stretch {
  int64_t begin = 0, end = 0;
  bool meets(const Stretch &other) const { return begin < other.end && other.begin < end; }
};

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

struct PartRead {
  Operation *op;
  Stretch stretch;
};

/// Who reads which part of a value, through views.
void collectReads(Value value, SmallVectorImpl<PartRead> &reads) {
  for (Operation *user : value.getUsers())
    if (exec::isView(user))
      collectReads(user->getResult(0), reads);
    else
      reads.push_back({user, {exec::beginOf(value), exec::beginOf(value) + elementsOf(value)}});
}

} // namespace

BufferAssignment::BufferAssignment(func::FuncOp function, const HomeTable &homes,
                                   const PartPlaces *part)
    : function(function), homes(homes), argumentLastUse(homes.getHomes().size(), -1),
      claimed(homes.getHomes().size()) {
  numberOps();
  findLastUses();
  placeArguments(part);
  for (Operation &op : function.getBody().front().without_terminator())
    placeResultsOf(&op);
  holdOperandsInFlight();
  claimHomes(part);
}

void BufferAssignment::numberOps() {
  for (Operation &op : function.getBody().front())
    times[&op] = end++;
  --end;
  flights.emplace(function, times);
}

void BufferAssignment::findLastUses() {
  for (Operation &op : function.getBody().front()) {
    bool inFlight = exec::isStarted(&op);
    if (inFlight)
      for (Value result : op.getResults())
        holders[result].push_back(&op);
    if (exec::isView(&op))
      continue; // reads nothing
    for (Value operand : op.getOperands()) {
      lastUses[exec::bufferRoot(operand)] = times[&op];
      if (inFlight)
        holders[exec::bufferRoot(operand)].push_back(&op);
    }
  }
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    size_t home = homes.find(graph::getResultRole(function, i));
    for (Value root = exec::bufferRoot(value);
         root && bytesOf(root.getType()) <= homes.getHomes()[home].bytes();
         root = madeInPlace(root))
      resultHomes.try_emplace(root, home);
  }
}

void BufferAssignment::placeArguments(const PartPlaces *part) {
  for (BlockArgument argument : function.getArguments()) {
    size_t home = homes.find(graph::getArgRole(function, argument.getArgNumber()));
    valueBuffers[argument] = buffers.size();
    if (part && part->spent.at(argument.getArgNumber())) {
      int64_t last = lastUses.contains(argument) ? lastUse(argument) : -1;
      buffers.push_back({bytesOf(argument.getType()), -1, last, std::nullopt});
      continue;
    }
    buffers.push_back({bytesOf(argument.getType()), -1, end, home});
    if (auto it = lastUses.find(argument); it != lastUses.end())
      argumentLastUse[home] = it->second;
  }
}

/// The buffer of `operand` if the result may lie there. `users` counts by buffer the operands
/// that lie in it and the earlier results that took it over.
std::optional<size_t> BufferAssignment::reusable(Operation *op, OpResult result, int64_t operand,
                                                 const BufferUsers &users) {
  if (operand < 0)
    return std::nullopt;
  Value root = exec::bufferRoot(op->getOperand(operand));
  size_t index = bufferOf(root);
  Buffer &buffer = buffers[index];
  if (lastUse(root) != times[op] || users.lookup(index) != 1 || isInFlight(root, op))
    return std::nullopt;
  auto target = resultHomes.find(result);
  if (const uint64_t bytes = bytesOf(result.getType()); buffer.bytes != bytes) {
    // A part stays at the beginning of the whole, if that is the place to which it is returned.
    auto whole = resultHomes.find(root);
    bool stays = fitsInPlace(result) && target != resultHomes.end() && whole != resultHomes.end() &&
                 whole->second == target->second &&
                 buffer.home.value_or(target->second) == target->second;
    if (!stays)
      return std::nullopt;
    buffer.bytes = std::max(buffer.bytes, bytes); // all of a home is there
    return index;
  }
  if (!buffer.home)
    return index;
  // An argument's place is taken over by the result that replaces it, or by
  // anything once nobody asks for the argument again.
  bool takes = target != resultHomes.end() ? target->second == *buffer.home
                                           : homes.isSpentAfter(function, *buffer.home);
  return takes ? std::optional(index) : std::nullopt;
}

bool BufferAssignment::isInFlight(Value root, Operation *op) const {
  auto known = holders.find(root);
  return known != holders.end() && llvm::any_of(known->second, [&](Operation *holder) {
           return holder != op && times.at(holder) <= times.at(op) &&
                  flights->doneAt(holder) > times.at(op) && !follows(op, holder);
         });
}

/// Whatever a started op reads or writes is taken until it is done.
void BufferAssignment::holdOperandsInFlight() {
  for (const auto &[root, ops] : holders) {
    size_t index = bufferOf(root);
    for (Operation *op : ops) {
      buffers[index].last = std::max(buffers[index].last, flights->doneAt(op));
      if (auto home = buffers[index].home)
        argumentLastUse[*home] = std::max(argumentLastUse[*home], flights->doneAt(op));
    }
  }
}

void BufferAssignment::placeResultsOf(Operation *op) {
  if (exec::isView(op)) {
    valueBuffers[op->getResult(0)] = bufferOf(op->getOperand(0));
    return;
  }
  if (exec::isPart(op))
    return; // joined where its operands lie
  if (auto copy = dyn_cast<exec::CopyOp>(op))
    if (graph::ConcatOp join = exec::joinedInto(copy))
      return placePart(op, join);
  int64_t time = times[op];
  BufferUsers users; // an all-reduce of all gradients has thousands of operands
  for (Value operand : op->getOperands())
    ++users[bufferOf(operand)];
  for (OpResult result : op->getResults()) {
    int64_t last = std::max(time, lastUses.contains(result) ? lastUse(result) : time);
    auto index = reusable(op, result, overwritable(result), users);
    if (!index) {
      index = buffers.size();
      buffers.push_back({bytesOf(result.getType()), time, last, std::nullopt});
    }
    ++users[*index];
    valueBuffers[result] = *index;
    buffers[*index].last = std::max(buffers[*index].last, last);
  }
}

/// The first copy of a part makes the place of the whole.
void BufferAssignment::placePart(Operation *copy, graph::ConcatOp join) {
  Value whole = join.getResult();
  if (!valueBuffers.contains(whole)) {
    std::optional<size_t> index = replacedBy(join);
    if (!index) {
      index = buffers.size();
      buffers.push_back({bytesOf(whole.getType()), times[copy], times[copy], std::nullopt});
    }
    Buffer &buffer = buffers[*index];
    buffer.last = std::max({buffer.last, times[join], lastUse(whole)});
    valueBuffers[whole] = *index;
  }
  valueBuffers[copy->getResult(0)] = bufferOf(whole);
}

/// The tensors of whose parts the joined ones are made, or the argument in whose home they belong.
SmallVector<Value> BufferAssignment::tensorsBefore(graph::ConcatOp join) {
  SmallVector<Value> before;
  if (auto target = resultHomes.find(join.getResult()); target != resultHomes.end()) {
    for (BlockArgument argument : function.getArguments())
      if (buffers[bufferOf(argument)].home == target->second)
        before.push_back(argument);
    return before;
  }
  Operation *copy = exec::bufferRoot(join.getInputs()[0]).getDefiningOp();
  if (Operation *maker = copy->getOperand(0).getDefiningOp())
    for (Value operand : maker->getOperands())
      if (auto part = exec::bufferRoot(operand).getDefiningOp<exec::CopyOp>())
        before.push_back(exec::bufferRoot(part.getInput()));
  return before;
}

/// The buffer of such a tensor, if nothing reads a part of it once the new one is there.
std::optional<size_t> BufferAssignment::replacedBy(graph::ConcatOp join) {
  auto target = resultHomes.find(join.getResult());
  for (Value old : tensorsBefore(join)) {
    const size_t index = bufferOf(old);
    const Buffer &buffer = buffers[index];
    bool belongs = !buffer.home || (target != resultHomes.end() && target->second == *buffer.home);
    if (belongs && buffer.bytes == bytesOf(join.getType()) && isReadBefore(old, join) &&
        replaced.insert(index).second)
      return index;
  }
  return std::nullopt;
}

bool BufferAssignment::isReadBefore(Value root, graph::ConcatOp join) const {
  SmallVector<PartRead> reads;
  collectReads(root, reads);
  int64_t begin = 0;
  for (Value input : join.getInputs()) {
    Stretch part{begin, begin + elementsOf(input)};
    Operation *writer = exec::bufferRoot(input).getDefiningOp();
    for (const PartRead &read : reads) {
      bool isDone = exec::isStarted(read.op)
                        ? flights->doneAt(read.op) <= times.at(writer) || follows(writer, read.op)
                        : read.op->isBeforeInBlock(writer);
      if (read.stretch.meets(part) && !isDone)
        return false;
    }
    begin = part.end;
  }
  return true;
}

/// Only copies to the host write there, and nothing else.
static bool isWrittenFor(Operation *op, const Home &home) {
  if (graph::ConcatOp join = exec::joinOf(op))
    op = exec::bufferRoot(join.getInputs()[0]).getDefiningOp();
  auto copy = dyn_cast_or_null<exec::CopyOp>(op);
  return (copy && copy.getToHost()) == home.isOnHost();
}

/// True if nothing is kept in the home from that time on.
bool BufferAssignment::isFree(size_t home, int64_t from) const {
  return !claimed.test(home) && argumentLastUse[home] < from;
}

void BufferAssignment::claimHomes(const PartPlaces *part) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (part && !part->apart.at(i))
      continue;
    size_t home = homes.find(graph::getResultRole(function, i));
    Buffer &buffer = buffers[bufferOf(value)];
    if (buffer.home == home)
      continue;
    bool fits = isWrittenFor(exec::bufferRoot(value).getDefiningOp(), homes.getHomes()[home]);
    if (buffer.home || !fits || !isFree(home, buffer.first)) {
      misplaced.push_back(i);
      continue;
    }
    buffer.home = home;
    buffer.last = end;
    claimed.set(home);
  }
}

} // namespace dtc::lower
