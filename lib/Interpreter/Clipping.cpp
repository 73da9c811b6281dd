#include "Clipping.h"

#include "dtc/Dialect/Graph/StepFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;

namespace dtc::interpreter {

Clipping::Clipping(ModuleOp global) {
  func::FuncOp update = graph::findFunction(global, graph::kUpdate);
  if (!update)
    return;
  update.walk([&](arith::MinimumFOp op) {
    DenseFPElementsAttr bound;
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (type && type.getRank() == 0 && matchPattern(op.getRhs(), m_Constant(&bound)))
      bounds.try_emplace(op.getLhs(), bound.getSplatValue<APFloat>().convertToDouble());
  });
}

void Clipping::see(Value value, const Tensor &tensor) {
  auto bound = bounds.find(value);
  if (bound == bounds.end() || !(tensor.floats[0] > bound->second))
    return;
  factor = std::max(factor, std::exp2(std::ceil(std::log2(tensor.floats[0] / bound->second)) + 1));
}

} // namespace dtc::interpreter
