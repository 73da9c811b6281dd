#include "InPlace.h"

#include "Homes.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;

namespace dtc::lower {

bool sumsInPlace(Operation *op) {
  return isa<dist::AllReduceOp, dist::ReduceScatterOp, dist::StageSumOp>(op);
}

int64_t overwritable(OpResult result) {
  Operation *op = result.getOwner();
  const unsigned number = result.getResultNumber();
  if (auto launch = dyn_cast<exec::LaunchOp>(op))
    return launch.getInPlace()[number];
  if (auto product = dyn_cast<exec::MatmulOp>(op))
    return number == 0 && product.addsExtra() ? exec::MatmulOp::kExtra : -1;
  if (isa<exec::ConvWeightGradOp>(op))
    return exec::ConvWeightGradOp::kBefore;
  return sumsInPlace(op) ? static_cast<int64_t>(number) : -1;
}

bool fitsInPlace(OpResult result) {
  Operation *op = result.getOwner();
  const int64_t operand = overwritable(result);
  if (operand < 0)
    return false;
  const uint64_t before = bytesOf(op->getOperand(operand).getType()),
                 after = bytesOf(result.getType());
  if (isa<dist::ReduceScatterOp>(op))
    return after <= before;
  return isa<exec::LaunchOp>(op) ? after >= before : after == before;
}

bool putsZerosBehind(Operation *op) {
  return isa<exec::LaunchOp>(op) && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         fitsInPlace(op->getResult(0)) &&
         bytesOf(op->getResult(0).getType()) > bytesOf(op->getOperand(0).getType());
}

} // namespace dtc::lower
