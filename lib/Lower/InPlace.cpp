#include "InPlace.h"

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
  return sumsInPlace(op) ? static_cast<int64_t>(number) : -1;
}

} // namespace dtc::lower
