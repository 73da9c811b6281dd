#include "dtc/Dialect/Graph/CountLimits.h"

#include "mlir/IR/Matchers.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace dtc::graph {

bool CountLimit::isDecision() const {
  return isa<arith::CmpIOp, arith::CmpFOp>(constant->getOwner());
}

namespace {

/// The whole number that all elements of a constant are.
std::optional<int64_t> splatOf(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<IntegerType>(elements.getElementType())) {
    APInt number = elements.getSplatValue<APInt>();
    return number.getBitWidth() == 1 ? int64_t(number.getZExtValue()) : number.getSExtValue();
  }
  constexpr double kMost = 1e15; // whole numbers below it are exact
  double number = elements.getSplatValue<APFloat>().convertToDouble();
  if (!(std::fabs(number) < kMost) || number != std::floor(number))
    return std::nullopt;
  return static_cast<int64_t>(number);
}

/// The iota whose numbers a value has, or null.
IotaOp placesOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<BroadcastOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::SIToFPOp,
             arith::UIToFPOp>(op))
      return dyn_cast<IotaOp>(op);
    value = op->getOperand(0);
  }
  return {};
}

int64_t sizeOf(const Counted &counted) {
  ArrayRef<int64_t> shape = shapeOf(counted.truths);
  return std::accumulate(counted.dims.begin(), counted.dims.end(), int64_t(1),
                         [&](int64_t size, int64_t dim) { return size * shape[dim]; });
}

/// Follows truths and their counts through a function.
class Finder {
public:
  CountLimits run(func::FuncOp function) {
    for (Operation &op : function.front().without_terminator()) {
      if (op.getNumResults() != 1)
        continue;
      note(&op);
      visit(&op);
    }
    return std::move(found);
  }

private:
  const Counted *countOf(Value value) const {
    auto known = counts.find(value);
    return known == counts.end() ? nullptr : &known->second;
  }

  bool isTruth(Value value) const {
    if (getElementTypeOrSelf(value).isInteger(1) || truths.contains(value))
      return true;
    std::optional<int64_t> number = splatOf(value);
    return number && (*number == 0 || *number == 1);
  }

  /// Elements that a result's are made of, one or several of each operand.
  static bool passesElements(Operation *op) {
    return isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, PickOp, GatherOp, ConcatOp, SumOp,
               ReduceOp, ContractOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::ExtFOp,
               arith::TruncFOp, arith::UIToFPOp, arith::SIToFPOp, arith::FPToSIOp, arith::AddIOp,
               arith::AddFOp, arith::SubIOp, arith::SubFOp, arith::MulIOp, arith::MulFOp,
               arith::MinSIOp, arith::MaxSIOp, arith::MinimumFOp, arith::MaximumFOp,
               arith::SelectOp>(op);
  }

  /// Those of an op's operands that aren't indices or conditions.
  static OperandRange valuesOf(Operation *op) {
    if (isa<PickOp, GatherOp>(op))
      return op->getOperands().take_front(1);
    return isa<arith::SelectOp>(op) ? op->getOperands().drop_front(1) : op->getOperands();
  }

  void note(Operation *op);
  void visit(Operation *op);
  std::optional<Counted> newCount(Operation *op) const;

  CountLimits found;
  DenseMap<Value, Counted> counts;
  DenseSet<Value> truths; ///< of other types than bits
};

/// What an op counts that no operand has counted.
std::optional<Counted> Finder::newCount(Operation *op) const {
  if (!llvm::all_of(op->getOperands(), [&](Value value) { return isTruth(value); }))
    return std::nullopt;
  if (auto cumsum = dyn_cast<CumSumOp>(op))
    return Counted{cumsum.getInput(), {int64_t(cumsum.getDim())}};
  auto reduce = dyn_cast<ReduceOp>(op);
  if (reduce && reduce.getKind() == ReduceKind::Sum)
    return Counted{reduce.getInput(), llvm::to_vector(reduce.getDims())};
  return std::nullopt;
}

void Finder::note(Operation *op) {
  Value result = op->getResult(0);
  if (getElementTypeOrSelf(result).isInteger(1))
    return;
  if (auto counted = newCount(op)) {
    counts[result] = *counted;
    return;
  }
  if (!passesElements(op))
    return;
  const Counted *first = nullptr;
  bool areTruths =
      !isa<arith::AddIOp, arith::AddFOp, arith::SubIOp, arith::SubFOp, SumOp, ContractOp>(op);
  for (Value value : valuesOf(op)) {
    const Counted *count = countOf(value);
    if (!count && !isTruth(value) && !splatOf(value))
      return;
    areTruths &= isTruth(value);
    first = first ? first : count;
  }
  if (first)
    counts[result] = Counted(*first);
  else if (areTruths)
    truths.insert(result);
}

void Finder::visit(Operation *op) {
  if (!isa<arith::CmpIOp, arith::CmpFOp, arith::MinSIOp, arith::MaxSIOp, arith::MinimumFOp,
           arith::MaximumFOp>(op))
    return;
  for (OpOperand &operand : op->getOpOperands()) {
    const Counted *count = countOf(op->getOperand(1 - operand.getOperandNumber()));
    if (!count)
      continue;
    std::optional<int64_t> number = splatOf(operand.get());
    if (number && *number >= 2 && *number < sizeOf(*count))
      found.limits.push_back({*count, &operand, *number});
    auto iota = placesOf(operand.get());
    if (iota && isa<arith::CmpIOp, arith::CmpFOp>(op))
      found.slots.push_back({*count, iota, int64_t(iota.getDim())});
  }
}

} // namespace

CountLimits findCountLimits(func::FuncOp function) {
  return function.getBody().hasOneBlock() ? Finder().run(function) : CountLimits();
}

} // namespace dtc::graph
