// Packing of all-reduces.
#include "Collectives.h"

using namespace mlir;
using namespace dtc::dist;

namespace dtc::partition {

namespace {
/// All-reduces that may become one call at the place of the last.
struct Bucket {
  SmallVector<AllReduceOp> members;
  int64_t bytes = 0;

  bool takes(AllReduceOp op) const {
    AllReduceOp first = members.front();
    return first.getMeshAttr() == op.getMeshAttr() && first.getAxes() == op.getAxes() &&
           first.getKind() == op.getKind() &&
           getElementTypeOrSelf(first.getInputs().front()) ==
               getElementTypeOrSelf(op.getInputs().front());
  }

  bool isReadBy(Operation *op) const {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      auto producer = operand.getDefiningOp<AllReduceOp>();
      return producer && llvm::is_contained(members, producer);
    });
  }
};
} // namespace

static int64_t bytesOf(AllReduceOp op) {
  int64_t bytes = 0;
  for (Value input : op.getInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    bytes += type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
  }
  return bytes;
}

static void merge(const Bucket &bucket) {
  if (bucket.members.size() < 2)
    return;
  AllReduceOp last = bucket.members.back();
  OpBuilder builder(last);
  SmallVector<Value> inputs, outputs;
  for (AllReduceOp op : bucket.members) {
    llvm::append_range(inputs, op.getInputs());
    llvm::append_range(outputs, op.getOutputs());
  }
  auto merged = AllReduceOp::create(builder, last.getLoc(), TypeRange(ValueRange(inputs)), inputs,
                                    last.getMesh(), last.getAxes(), last.getKind());
  for (auto [before, after] : llvm::zip_equal(outputs, merged.getOutputs()))
    before.replaceAllUsesWith(after);
  for (AllReduceOp op : bucket.members)
    op.erase();
}

void bucketAllReduces(func::FuncOp func, int64_t bytes) {
  std::vector<Bucket> open, closed;
  auto close = [&](size_t index) {
    closed.push_back(std::move(open[index]));
    open.erase(open.begin() + index);
  };
  for (Operation &op : func.getBody().front()) {
    for (size_t i = open.size(); i-- > 0;)
      if (open[i].isReadBy(&op))
        close(i);
    auto reduce = dyn_cast<AllReduceOp>(op);
    if (!reduce)
      continue;
    int64_t size = bytesOf(reduce);
    auto it = llvm::find_if(open, [&](const Bucket &bucket) { return bucket.takes(reduce); });
    if (it != open.end() && it->bytes + size > bytes) {
      close(it - open.begin());
      it = open.end();
    }
    if (it == open.end())
      it = open.insert(open.end(), Bucket());
    it->members.push_back(reduce);
    it->bytes += size;
  }
  for (const Bucket &bucket : closed)
    merge(bucket);
  for (const Bucket &bucket : open)
    merge(bucket);
}

} // namespace dtc::partition
