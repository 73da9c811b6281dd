#include "StridedView.h"

#include "dtc/Dialect/Graph/Graph.h"

using namespace mlir;

namespace dtc::kernels {
namespace {

SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    strides[dim] = stride;
  return strides;
}

/// One dimension of a strided grid.
struct Dim {
  int64_t size, stride;
};

/// The grid with neighbours that lie densely joined, dimensions of size 1 gone.
SmallVector<Dim> joinDims(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  SmallVector<Dim> joined;
  for (auto [size, stride] : llvm::zip_equal(shape, strides)) {
    if (size == 1)
      continue;
    if (!joined.empty() && joined.back().stride == stride * size)
      joined.back() = {joined.back().size * size, stride};
    else
      joined.push_back({size, stride});
  }
  return joined;
}

/// The strides that give the elements of a grid another shape, row-major; none
/// when a new dimension would run over a seam of the grid.
std::optional<SmallVector<int64_t>> reshapeStrides(ArrayRef<int64_t> shape,
                                                   ArrayRef<int64_t> strides,
                                                   ArrayRef<int64_t> newShape) {
  SmallVector<Dim> dims = joinDims(shape, strides);
  SmallVector<int64_t> result(newShape.size(), 1);
  for (size_t dim = newShape.size(); dim-- > 0;) {
    int64_t size = newShape[dim];
    if (size == 1)
      continue;
    if (dims.empty() || dims.back().size % size != 0)
      return std::nullopt;
    result[dim] = dims.back().stride;
    dims.back() = {dims.back().size / size, dims.back().stride * size};
    if (dims.back().size == 1)
      dims.pop_back();
  }
  return result;
}

StridedView viewTranspose(graph::TransposeOp op) {
  StridedView source = traceView(op.getInput()), view = source;
  for (auto [dim, from] : llvm::enumerate(op.getPerm()))
    view.strides[dim] = source.strides[from];
  return view;
}

StridedView viewSlice(graph::SliceOp op) {
  StridedView view = traceView(op.getInput());
  for (auto [dim, stride] : llvm::enumerate(view.strides)) {
    view.offset += op.getOffsets()[dim] * stride;
    stride *= op.getStrides()[dim];
  }
  return view;
}

StridedView viewBroadcast(graph::BroadcastOp op) {
  StridedView source = traceView(op.getInput()), view = source;
  view.strides.assign(graph::shapeOf(op.getResult()).size(), 0);
  for (auto [dim, to] : llvm::enumerate(op.getDims()))
    view.strides[to] = source.strides[dim];
  return view;
}

StridedView viewReshape(graph::ReshapeOp op) {
  StridedView view = traceView(op.getInput());
  auto strides = reshapeStrides(graph::shapeOf(op.getInput()), view.strides,
                                graph::shapeOf(op.getResult()));
  if (!strides)
    return denseView(op.getResult());
  view.strides = *strides;
  return view;
}

} // namespace

StridedView denseView(Value value) {
  return {value, 0, denseStrides(graph::shapeOf(value))};
}

StridedView traceView(Value value) {
  Operation *defined = value.getDefiningOp();
  if (!defined) // an argument
    return denseView(value);
  return TypeSwitch<Operation *, StridedView>(defined)
      .Case([](graph::TransposeOp op) { return viewTranspose(op); })
      .Case([](graph::SliceOp op) { return viewSlice(op); })
      .Case([](graph::BroadcastOp op) { return viewBroadcast(op); })
      .Case([](graph::ReshapeOp op) { return viewReshape(op); })
      .Default([&](Operation *) { return denseView(value); });
}

std::optional<StridedView> placeOfSource(Value value, int64_t offset, ArrayRef<int64_t> strides) {
  StridedView place{value, offset, SmallVector<int64_t>(strides)};
  while (Operation *op = place.base.getDefiningOp()) {
    auto reshape = dyn_cast<graph::ReshapeOp>(op);
    auto transpose = dyn_cast<graph::TransposeOp>(op);
    if ((!reshape && !transpose) || !op->hasOneUse())
      break;
    Value source = op->getOperand(0);
    SmallVector<int64_t> before(graph::shapeOf(source).size());
    if (transpose) {
      for (auto [dim, from] : llvm::enumerate(transpose.getPerm()))
        before[from] = place.strides[dim];
    } else {
      auto found =
          reshapeStrides(graph::shapeOf(place.base), place.strides, graph::shapeOf(source));
      if (!found)
        return std::nullopt;
      before = *found;
    }
    place = {source, offset, before};
  }
  return place;
}

void eraseDeadViews(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isa<graph::TransposeOp, graph::SliceOp, graph::ReshapeOp, graph::BroadcastOp>(op) &&
        op.use_empty())
      op.erase();
}

} // namespace dtc::kernels
