#include "StridedView.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/StridedReads.h"

using namespace mlir;

namespace dtc::kernels {

using graph::shapeOf;

StridedView denseView(Value value) { return {sharding::dense(shapeOf(value)), value}; }

StridedView traceView(Value value) {
  Operation *defined = value.getDefiningOp();
  if (!defined) // an argument
    return denseView(value);
  if (auto reshape = dyn_cast<graph::ReshapeOp>(defined)) {
    StridedView source = traceView(reshape.getInput());
    auto place = sharding::reshaped(shapeOf(reshape.getInput()), source, shapeOf(value));
    return place ? StridedView{*place, source.base} : denseView(value);
  }
  std::vector<sharding::DimRead> reads = graph::stridedReads(defined);
  if (reads.empty())
    return denseView(value);
  StridedView source = traceView(defined->getOperand(0));
  return {sharding::readOf(source, reads), source.base};
}

std::optional<StridedView> placeOfSource(Value value, const sharding::Strided &place) {
  StridedView view{place, value};
  while (Operation *op = view.base.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::TransposeOp>(op) || !op->hasOneUse())
      break;
    Value source = op->getOperand(0);
    auto before = isa<graph::ReshapeOp>(op)
                      ? sharding::reshaped(shapeOf(view.base), view, shapeOf(source))
                      : sharding::placeOfOperand(shapeOf(source), graph::stridedReads(op),
                                                 shapeOf(view.base), view);
    if (!before)
      return std::nullopt;
    view = {*before, source};
  }
  return view;
}

void eraseDeadViews(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isa<graph::TransposeOp, graph::SliceOp, graph::ReshapeOp, graph::BroadcastOp>(op) &&
        op.use_empty())
      op.erase();
}

} // namespace dtc::kernels
