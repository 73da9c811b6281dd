// Packing of collectives.
#include "Collectives.h"

using namespace mlir;
using namespace dtc::dist;

namespace dtc::partition {

bool isOfStorage(Operation *op) { return op->hasAttr(DistDialect::kBlock); }

Operation *mergeCalls(OpBuilder &builder, ArrayRef<Operation *> members) {
  Operation *last = members.back();
  OperationState state(last->getLoc(), last->getName());
  SmallVector<Value> outputs;
  for (Operation *op : members) {
    state.addOperands(op->getOperands());
    state.addTypes(op->getResultTypes());
    llvm::append_range(outputs, op->getResults());
  }
  state.propertiesAttr = last->getPropertiesAsAttribute();
  Operation *merged = builder.create(state);
  for (auto [before, after] : llvm::zip_equal(outputs, merged->getResults()))
    before.replaceAllUsesWith(after);
  for (Operation *op : members)
    op->erase();
  return merged;
}

CallKey callKeyOf(Operation *op) {
  return {op->getName(), op->getPropertiesAsAttribute(),
          getElementTypeOrSelf(op->getOperand(0).getType())};
}

namespace {

int64_t bytesOf(Operation *op) {
  int64_t bytes = 0;
  for (Value input : op->getOperands()) {
    auto type = cast<RankedTensorType>(input.getType());
    bytes += type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
  }
  return bytes;
}

/// True where what the op makes of a stored tensor is only returned, so that it can come later. A
/// sum of gradients is such, and a gathered parameter without its padding.
bool isReturned(Operation *op) {
  return isa<graph::SumOp, graph::ReshapeOp, graph::SliceOp>(op) &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return isa<func::ReturnOp>(user) || isReturned(user);
         });
}

/// Moves what is only returned, and reads a value, in front of an op that comes later.
void moveReadersBefore(Value value, Operation *place) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
    if (isReturned(user) && user->isBeforeInBlock(place)) {
      user->moveBefore(place);
      moveReadersBefore(user->getResult(0), place);
    }
}

/// Whether the op adds up the parts of a scattered gradient over further axes, in the update.
bool sumsParts(Operation *op) {
  return isa<AllReduceOp>(op) && op->getNumOperands() == 1 &&
         op->getOperand(0).getDefiningOp<ReduceScatterOp>();
}

/// Calls that may become one at the place of the last.
struct Bucket {
  CallKey key;
  Attribute block; ///< null: of any
  SmallVector<Operation *> members;
  SmallVector<Operation *> waiting; ///< what reads them, and is to come behind the call
  int64_t bytes = 0;

  /// Notes what can wait for the call.
  bool mustPrecede(Operation *op) {
    bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *made = operand.getDefiningOp();
      return made && (llvm::is_contained(members, made) || llvm::is_contained(waiting, made));
    });
    if (!reads)
      return false;
    if (!isOfStorage(members.front()) || !(isReturned(op) || sumsParts(op)))
      return true;
    waiting.push_back(op);
    return false;
  }
};

/// Which calls are looked at. What waits for those of storage is moved, so that sums come later.
enum class Calls : uint8_t { OfStorage, Sums };

class BucketFinder {
public:
  BucketFinder(func::FuncOp func, Calls calls, int64_t bytes)
      : func(func), calls(calls), limit(bytes), isPass(graph::runsPerMicrobatch(func)) {}

  std::vector<Bucket> run() {
    for (Operation &op : func.getBody().front()) {
      for (size_t i = open.size(); i-- > 0;)
        if (open[i].mustPrecede(&op))
          close(i);
      if (isBucketed(&op))
        add(&op);
    }
    closed.insert(closed.end(), std::make_move_iterator(open.begin()),
                  std::make_move_iterator(open.end()));
    return std::move(closed);
  }

private:
  bool isBucketed(Operation *op) const {
    if (calls == Calls::Sums)
      return isa<AllReduceOp>(op) && op->getNumOperands() == 1;
    return isOfStorage(op) && (isa<ReduceScatterOp>(op) || !isPass);
  }

  void add(Operation *op) {
    CallKey key = callKeyOf(op);
    Attribute block = isPass ? op->getAttr(DistDialect::kBlock) : Attribute();
    int64_t size = bytesOf(op);
    auto it = llvm::find_if(
        open, [&](const Bucket &bucket) { return bucket.key == key && bucket.block == block; });
    if (it != open.end() && !block && it->bytes + size > limit) {
      close(it - open.begin());
      it = open.end();
    }
    if (it == open.end())
      it = open.insert(open.end(), Bucket{key, block, {}, {}, 0});
    it->members.push_back(op);
    it->bytes += size;
  }

  void close(size_t index) {
    closed.push_back(std::move(open[index]));
    open.erase(open.begin() + index);
  }

  func::FuncOp func;
  Calls calls;
  int64_t limit;
  bool isPass;
  std::vector<Bucket> open, closed;
};

/// What reads the members' results comes behind the call.
void mergeInPlace(const Bucket &bucket) {
  Operation *last = bucket.members.back();
  Operation *place = last->getNextNode();
  for (Operation *op : bucket.waiting)
    if (op->isBeforeInBlock(place))
      op->moveBefore(place);
  OpBuilder builder(last);
  Operation *merged = mergeCalls(builder, bucket.members);
  if (bucket.block)
    merged->setAttr(DistDialect::kBlock, bucket.block);
}

/// Moves what reads the gradients of a block behind the next block's call.
void delaySums(func::FuncOp func) {
  Operation *before = nullptr;
  auto moveSums = [&](Operation *next) {
    for (Value part : before->getResults())
      moveReadersBefore(part, next);
  };
  Block &block = func.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (isa<ReduceScatterOp>(op) && isOfStorage(&op)) {
      if (before)
        moveSums(op.getNextNode());
      before = &op;
    }
  if (before)
    moveSums(block.getTerminator());
}

} // namespace

void bucketCollectives(func::FuncOp func, int64_t bytes) {
  for (Calls calls : {Calls::OfStorage, Calls::Sums})
    for (const Bucket &bucket : BucketFinder(func, calls, bytes).run())
      if (bucket.members.size() > 1)
        mergeInPlace(bucket);
  if (graph::runsPerMicrobatch(func))
    delaySums(func);
  for (Operation &op : func.getBody().front())
    op.removeAttr(DistDialect::kBlock);
}

} // namespace dtc::partition
