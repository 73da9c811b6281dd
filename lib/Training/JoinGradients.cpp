#include "JoinGradients.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

/// The one dimension in which a part is smaller than the whole; none where it
/// is no contiguous piece of zeros elsewhere.
static std::optional<int64_t> pieceDim(Value part) {
  auto pad = part.getDefiningOp<PadOp>();
  if (!pad || !pad.getValue().isZero() ||
      llvm::any_of(pad.getInterior(), [](int64_t interior) { return interior != 0; }))
    return std::nullopt;
  std::optional<int64_t> dim;
  for (auto [i, sizes] :
       llvm::enumerate(llvm::zip_equal(shapeOf(pad.getInput()), shapeOf(part)))) {
    if (std::get<0>(sizes) == std::get<1>(sizes))
      continue;
    if (dim)
      return std::nullopt;
    dim = i;
  }
  return dim;
}

/// Null where the parts do not tile a dimension.
static Value joinPieces(OpBuilder &builder, Location loc, ArrayRef<Value> parts) {
  std::optional<int64_t> dim = pieceDim(parts.front());
  if (!dim || llvm::any_of(parts, [&](Value part) { return pieceDim(part) != dim; }))
    return nullptr;
  auto pads =
      llvm::map_to_vector(parts, [](Value part) { return part.getDefiningOp<PadOp>(); });
  llvm::sort(pads, [&](PadOp a, PadOp b) { return a.getLow()[*dim] < b.getLow()[*dim]; });
  int64_t end = 0;
  SmallVector<Value> pieces;
  for (PadOp pad : pads) {
    if (pad.getLow()[*dim] != end)
      return nullptr;
    end += shapeOf(pad.getInput())[*dim];
    pieces.push_back(pad.getInput());
  }
  if (end != shapeOf(parts.front())[*dim])
    return nullptr;
  return ConcatOp::create(builder, loc, parts.front().getType(), pieces, *dim);
}

Value joinGradients(OpBuilder &builder, Location loc, ArrayRef<Value> parts) {
  if (parts.size() == 1)
    return parts.front();
  if (Value joined = joinPieces(builder, loc, parts))
    return joined;
  return SumOp::create(builder, loc, parts.front().getType(), parts);
}

} // namespace dtc::training
